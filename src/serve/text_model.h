// A language model of a server: texts wait in its queue, and one thread generates them, together if the model allows it
// (infer/batch_generator.h), else one after the other. A client that goes away ends its text. A second thread makes
// vectors of texts, once they are asked for.
//
// Used by the protocols, which say what a text is to be like and make an answer of its tokens.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "infer/batch_generator.h"
#include "infer/chat.h"
#include "infer/generate.h"
#include "serve/embeddings.h"
#include "serve/served_model.h"
#include "serve/text_grammars.h"

namespace mlx::serve {

// What becomes of a text. All calls come from the model's thread.
class TextAnswer {
 public:
  virtual ~TextAnswer() = default;
  virtual bool token(const infer::Drawn& drawn) = 0;  // false: the text ends with it
  // `made` lacks what a text that token() has ended knows nothing of.
  virtual void end(const infer::Generated& made) = 0;
  virtual void failed(const Reply& why) = 0;
};

struct TextJob {
  infer::TextRequest request{};  // without `emit`
  std::unique_ptr<TextAnswer> answer{};
  ExchangePtr exchange{};  // whose client waits for it
};

class TextModel final : public ServedModel {
 public:
  TextModel(const ModelSpec& spec, const ServerOptions& options);
  ~TextModel() override { finish(); }

  const data::Tokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t context() const { return model().signature().context; }
  const std::set<std::int32_t>& end_tokens() const { return ends_; }
  // Of a text that is gone on with: with the tokens that the tokenizer puts around it. `what` names it in messages.
  std::vector<std::int32_t> prompt_tokens(const std::string& prompt, std::string_view what) const;
  TextGrammars& grammars() { return grammars_; }
  bool can_chat() const;
  // Throws kUsage for a model without a chat template.
  const infer::Chat& chat();
  // Queues them all; false, and none is queued, where too many wait.
  bool submit(std::vector<TextJob> jobs);

  void infer(const Request& request, const ExchangePtr& exchange) override;
  TextModel& text() override { return *this; }
  Vectors vectors() override;
  bool writes_text() const override { return true; }
  std::string tensors() const override;
  std::int64_t waiting() const override;
  void finish() override;

 private:
  struct Running;
  using Together = std::map<std::int64_t, std::unique_ptr<Running>>;  // by their numbers in batch_
  struct Waiting {
    TextJob job;
    double since = 0;
  };

  void work();
  void check_client() const;
  void compute(Waiting waiting);
  void work_together();
  void finish(Together& running, const infer::FinishedText& finished);
  void drop_gone(Together& running);
  void drop_all(Together& running, const std::exception_ptr& error);
  bool accept(Together& running);
  static std::size_t free_of(const Together& running);
  infer::TextRequest request_of(Running& text) const;
  void end(Running& text, const infer::Generated& made);
  void end(Running& text, const std::exception_ptr& error, const infer::Generated& made);

  const data::Tokenizer& tokenizer_;
  const std::set<std::int32_t> ends_;
  const bool special_;  // prompts get the tokens that the tokenizer puts around a text
  const std::size_t queue_limit_;
  const std::int64_t ngram_;  // of speculation; 0: none
  TextGrammars grammars_;
  std::optional<infer::Chat> chat_;
  Embeddings embeddings_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  std::size_t free_ = 0;  // texts that can begin beside those that run
  bool stopping_ = false;
  const Exchange* exchange_ = nullptr;  // of the text that generator_ is at
  std::optional<infer::Generator> generator_;
  std::optional<infer::BatchGenerator> batch_;  // instead of it
  std::thread thread_;
};

}  // namespace mlx::serve
