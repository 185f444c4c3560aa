// Language models: one thread generates the texts, together if the model allows it (infer/batch_generator.h), else one
// after the other. A client that goes away ends its text.
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "infer/batch_generator.h"
#include "infer/generate.h"
#include "serve/generate_request.h"
#include "serve/infer_answer.h"
#include "serve/json_reader.h"
#include "serve/served_model.h"
#include "serve/text_grammars.h"
#include "serve/text_pieces.h"

namespace mlx::serve {
namespace {

constexpr double kLeastLogprob = -1e9;  // JSON has no infinity

// What ends a generation that nobody waits for.
struct ClientGone {};

struct Generation {
  GenerateRequest request;
  std::vector<std::int32_t> prompt, stop;
  std::shared_ptr<infer::grammar::TokenGrammar> grammar;
  bool stream = false;
  ExchangePtr exchange;
  double started = 0;
};

// A token as OpenAI's chats have it, with its number.
std::string token_json(const data::Tokenizer& tokenizer, const infer::LogProbability& of) {
  const std::string piece(tokenizer.piece(of.token));
  std::string out = fmt::format("{{\"id\":{},\"token\":", of.token);
  append_json_string(out, TextPieces::whole(piece));
  std::vector<unsigned> bytes;
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  out += fmt::format(",\"logprob\":{},\"bytes\":[{}]", std::max(of.value, kLeastLogprob), fmt::join(bytes, ","));
  return out;
}

std::string logprobs_json(const data::Tokenizer& tokenizer, const infer::LogProbabilities& of) {
  std::string out = token_json(tokenizer, of.drawn) + ",\"top_logprobs\":[";
  for (std::size_t i = 0; i < of.top.size(); ++i) out += (i > 0 ? "," : "") + token_json(tokenizer, of.top[i]) + '}';
  return out + "]}";
}

// How an answer reaches the client: whole at the end, or an event for each token.
class TextAnswer {
 public:
  TextAnswer(const Generation& generation, const ModelNames& names, const data::Tokenizer& tokenizer)
      : generation_(generation), exchange_(*generation.exchange), names_(names), tokenizer_(tokenizer) {}

  void token(const infer::Drawn& drawn) {
    const std::string piece = pieces_.add(tokenizer_.piece(drawn.token));
    const std::string logprobs = drawn.logprobs ? logprobs_json(tokenizer_, *drawn.logprobs) : "";
    if (generation_.stream) {
      event(json(piece, "", logprobs));
    } else {
      text_ += piece;
      if (!logprobs.empty()) logprobs_ += (logprobs_.empty() ? "" : ",") + logprobs;
    }
  }

  void end(const infer::Generated& made) {
    const std::string rest = pieces_.rest();
    if (generation_.stream) {
      if (!rest.empty()) event(json(rest, "", ""));
      begin();
      return exchange_.end();
    }
    Reply reply;
    reply.body = json(text_ + rest, made.stopped ? "stop_sequence" : made.complete ? "eos_token" : "length", logprobs_);
    exchange_.reply(std::move(reply));
  }

  // What is wrong with the model is not the client's fault.
  void failed(const Error& error) {
    const bool of_model = error.kind == ErrorKind::kCorrupt;
    const std::string message = of_model ? fmt::format("{}: {}", names_.model, error.message) : error.message;
    if (!begun_) return exchange_.reply(of_model ? error_reply(500, message) : error_reply(error));
    event(error_json(message));
    exchange_.end();
  }

 private:
  std::string json(std::string_view text, std::string_view finish_reason, std::string_view logprobs) const {
    std::string out = "{\"model_name\":";
    append_json_string(out, names_.model);
    out += ",\"model_version\":";
    append_json_string(out, names_.version);
    if (!generation_.request.id.empty()) {
      out += ",\"id\":";
      append_json_string(out, generation_.request.id);
    }
    out += ",\"text_output\":";
    append_json_string(out, text);
    std::vector<std::string> details;
    if (!finish_reason.empty()) details.push_back(fmt::format(R"("finish_reason":"{}")", finish_reason));
    if (!logprobs.empty()) details.push_back(fmt::format(R"("logprobs":{{"content":[{}]}})", logprobs));
    if (!details.empty()) out += fmt::format(R"(,"details":{{{}}})", fmt::join(details, ","));
    out += '}';
    return out;
  }

  void begin() {
    if (std::exchange(begun_, true)) return;
    Reply head;
    head.type = "text/event-stream";
    head.headers = "Cache-Control: no-cache\r\n";
    exchange_.begin(std::move(head));
  }

  void event(const std::string& data) {
    begin();
    exchange_.write("data: " + data + "\n\n");
  }

  const Generation& generation_;
  Exchange& exchange_;
  const ModelNames& names_;
  const data::Tokenizer& tokenizer_;
  TextPieces pieces_;
  std::string text_, logprobs_;
  bool begun_ = false;
};

// A text that is being generated. At a fixed address: its answer refers to its generation.
struct Running {
  Running(std::unique_ptr<Generation> of, const ModelNames& names, const data::Tokenizer& tokenizer)
      : generation(std::move(of)), answer(*generation, names, tokenizer), started(seconds_now()) {}

  std::unique_ptr<Generation> generation;
  TextAnswer answer;
  double started;
  std::int64_t tokens = 0;
};

// What texts that are generated together keep: room for kMostTexts of the whole context, but at most so many bytes, and
// at least for one text.
constexpr std::int64_t kCacheBytes = std::int64_t{512} << 20;

std::int64_t cached_positions(const infer::Model& model) {
  const infer::TextRequest whole{.prompt = {}, .count = model.signature().context};
  const std::int64_t context = infer::cache_positions(model, whole);
  const std::int64_t most = kCacheBytes / infer::cache_position_bytes(model);
  return std::clamp(most, context, context * infer::BatchGenerator::kMostTexts);
}

class TextModel final : public ServedModel {
 public:
  TextModel(const ModelSpec& spec, const ServerOptions& options)
      : ServedModel(spec),
        names_{spec.name, spec.version},
        tokenizer_(tokenizer_of(spec)),
        special_(!nn::architecture_of(model().about()).empty()),
        queue_limit_(static_cast<std::size_t>(options.queue_limit)),
        ngram_(options.ngram),
        grammars_(model().about(), tokenizer_) {
    if (infer::can_batch(model())) {
      batch_.emplace(model(), cached_positions(model())).warm_up();
      free_ = free_of({});
    } else {
      generator_.emplace(model(), [this] { check_client(); }).warm_up();
    }
    thread_ = std::thread([this] { batch_ ? work_together() : work(); });
  }
  ~TextModel() override { finish(); }

  void infer(const Request& /*request*/, const ExchangePtr& /*exchange*/) override {
    fail(ErrorKind::kUsage, "'{0}' generates text; POST /v2/models/{0}/generate asks it", spec().name);
  }

  void generate(const Request& request, const ExchangePtr& exchange, bool stream) override {
    auto generation = std::make_unique<Generation>();
    generation->started = seconds_now();
    generation->request = parse_generate_request(request.body);
    generation->prompt = infer::prompt_tokens(tokenizer_, generation->request.prompt, "text_input", special_);
    generation->stop = tokenizer_.encode(generation->request.stop, "parameter 'stop'");
    generation->grammar = grammars_.of(generation->request);
    generation->stream = stream;
    generation->exchange = exchange;
    exchange->watch();
    if (!submit(std::move(generation)))
      exchange->reply(busy_reply(fmt::format("{} texts are waiting; try again later", waiting())));
  }

  std::string tensors() const override {
    const infer::Signature& signature = model().signature();
    return fmt::format("\"inputs\":[{}],\"outputs\":[{}]", tensors_json(signature.inputs),
                       tensors_json(signature.outputs));
  }

  std::int64_t waiting() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(queue_.size());
  }

  void finish() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Together = std::map<std::int64_t, std::unique_ptr<Running>>;  // by their numbers in batch_

  static const data::Tokenizer& tokenizer_of(const ModelSpec& spec) {
    if (spec.model->about().preprocessing.tokenizer) return *spec.model->about().preprocessing.tokenizer;
    throw Error(ErrorKind::kUsage, fmt::format("{} has no tokenizer: it reads numbers, not text", spec.name),
                "a model that `mlx train` made from text has one");
  }

  // False where too many wait, beside those that can begin with the next step. One always may.
  bool submit(std::unique_ptr<Generation> generation) {
    {
      const std::lock_guard lock(mutex_);
      if (!queue_.empty() && queue_.size() >= queue_limit_ + free_) return false;
      queue_.push_back(std::move(generation));
    }
    changed_.notify_one();
    return true;
  }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::unique_ptr<Generation> generation = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      compute(std::move(generation));
    }
  }

  // Called by the generator between the parts of a prompt and between tokens.
  void check_client() const {
    if (exchange_ != nullptr && exchange_->gone()) throw ClientGone{};
  }

  void compute(std::unique_ptr<Generation> generation) {
    Running text(std::move(generation), names_, tokenizer_);
    exchange_ = text.generation->exchange.get();
    try {
      check_client();
      infer::TextRequest request = request_of(*text.generation);
      request.emit = [&](const infer::Drawn& drawn) { add(text, drawn); };
      const infer::Generated made = generator_->generate(request);
      end(text, made);
    } catch (...) {
      end(text, std::current_exception());
    }
  }

  // Takes texts from the queue while the cache has room for them, and computes a step of all.
  void work_together() {
    Together running;
    while (accept(running)) {
      const auto gone = [](const Running& text) { return text.generation->exchange->gone(); };
      drop(running, gone, std::make_exception_ptr(ClientGone{}));
      try {
        for (infer::FinishedText& finished : batch_->step()) finish(running, finished);
      } catch (...) {  // of the pass itself, such as no memory for its plan
        drop(
            running, [](const Running& /*text*/) { return true; }, std::current_exception());
      }
    }
  }

  void finish(Together& running, const infer::FinishedText& finished) {
    const auto found = running.find(finished.id);
    if (found == running.end()) return;  // dropped
    finished.error ? end(*found->second, finished.error) : end(*found->second, finished.text);
    running.erase(found);
  }

  template <class Which>
  void drop(Together& running, const Which& which, const std::exception_ptr& error) {
    std::erase_if(running, [&](const auto& each) {
      const auto& [id, text] = each;
      if (!which(*text)) return false;
      batch_->cancel(id);
      end(*text, error);
      return true;
    });
  }

  // Waits for a text if none is running. False if there will be no more.
  bool accept(Together& running) {
    std::unique_lock lock(mutex_);
    if (running.empty()) changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    while (!queue_.empty()) {
      infer::TextRequest request = request_of(*queue_.front());
      if (!batch_->has_room(request)) break;
      auto text = std::make_unique<Running>(std::move(queue_.front()), names_, tokenizer_);
      queue_.pop_front();
      request.emit = [&text = *text](const infer::Drawn& drawn) { add(text, drawn); };
      running.emplace(batch_->start(std::move(request)), std::move(text));
    }
    free_ = queue_.empty() ? free_of(running) : 0;  // else the first of the queue has no room
    return !running.empty();
  }

  static std::size_t free_of(const Together& running) {
    return static_cast<std::size_t>(infer::BatchGenerator::kMostTexts) - running.size();
  }

  infer::TextRequest request_of(const Generation& generation) const {
    infer::TextRequest request;
    request.prompt = generation.prompt;
    request.count = generation.request.max_tokens;
    request.sampling = generation.request.sampling;
    request.stop = generation.stop;
    request.logprobs = generation.request.logprobs;
    request.grammar = generation.grammar;
    request.speculation.ngram = ngram_;
    return request;
  }

  static void add(Running& text, const infer::Drawn& drawn) {
    ++text.tokens;
    text.answer.token(drawn);
  }

  void end(Running& text, const infer::Generated& made) {
    metrics_.generated(text.tokens, seconds_now() - text.started);
    metrics_.proposed(made.proposed, made.accepted);
    metrics_.inference(seconds_now() - text.generation->started);
    text.answer.end(made);
  }

  void end(Running& text, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const ClientGone&) {
      metrics_.generated(text.tokens, seconds_now() - text.started);
    } catch (const Error& failure) {
      text.answer.failed(failure);
    } catch (const std::exception& failure) {
      text.answer.failed(Error(ErrorKind::kNo, failure.what()));
    }
  }

  const ModelNames names_;
  const data::Tokenizer& tokenizer_;
  const bool special_;  // prompts get the tokens that the tokenizer puts around a text
  const std::size_t queue_limit_;
  const std::int64_t ngram_;  // of speculation; 0: none
  TextGrammars grammars_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Generation>> queue_;
  std::size_t free_ = 0;  // texts that can begin beside those that run
  bool stopping_ = false;
  const Exchange* exchange_ = nullptr;  // of the text that generator_ is at
  std::optional<infer::Generator> generator_;
  std::optional<infer::BatchGenerator> batch_;  // instead of it
  std::thread thread_;
};

}  // namespace

std::unique_ptr<ServedModel> serve_text(const ModelSpec& spec, const ServerOptions& options) {
  return std::make_unique<TextModel>(spec, options);
}

}  // namespace mlx::serve
