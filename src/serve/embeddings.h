// Texts as vectors (infer/embedding.h), for one language model or encoder of a server. Its thread and the model without
// its final layer are made when vectors are first asked for; the weights are shared. Used by text_model.h and
// encoder_model.cpp.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/tokenizer.h"
#include "infer/embedding.h"
#include "serve/exchange.h"
#include "serve/metrics.h"

namespace mlx::serve {

struct EmbeddingJob {
  std::vector<std::vector<std::int32_t>> texts{};  // 1 to context() tokens each
  infer::Pooling pooling = infer::Pooling::kLast;
  ExchangePtr exchange{};  // whose client waits for it
  // Makes the answer of the vectors, which have the length 1. Called on the thread of the vectors.
  std::function<Reply(const std::vector<std::vector<float>>&)> answer{};
};

class Embeddings {
 public:
  // `model` outlives it.
  Embeddings(const infer::Model& model, int queue_limit, ModelMetrics& metrics);
  ~Embeddings();

  void warm_up(infer::Pooling pooling);  // before anything is submitted
  std::int64_t waiting() const;
  // False where too many wait.
  bool submit(EmbeddingJob job);
  void finish();  // computes what waits, then ends the thread; nothing may be submitted after this

 private:
  struct Engine;
  void work();
  void compute(EmbeddingJob& job, double since);

  struct Waiting {
    EmbeddingJob job;
    double since = 0;
  };
  infer::Embedder& embedder(infer::Pooling pooling);

  const infer::Model& model_;
  const std::size_t queue_limit_;
  ModelMetrics& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  bool stopping_ = false;
  const Exchange* exchange_ = nullptr;  // of the job that is computed
  std::unique_ptr<Engine> engine_;      // of the thread
  std::thread thread_;
};

// A model as one that makes vectors.
struct Vectors {
  const data::Tokenizer& tokenizer;
  std::int64_t context = 0, vocabulary = 0;
  infer::Pooling pooling = infer::Pooling::kLast;  // unless a request asks for another one
  Embeddings& embeddings;
};
constexpr std::size_t kMostVectors = 2048;  // of a request
// The tokens of a text, which `what` names in messages; `truncate`: the beginning of one that is too long. Throws
// kUsage for one that is empty or too long.
std::vector<std::int32_t> vector_tokens(const Vectors& vectors, const std::string& text, const std::string& what,
                                        bool truncate = false);
void check_length(const Vectors& vectors, std::size_t tokens, const std::string& what);

}  // namespace mlx::serve
