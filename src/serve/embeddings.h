// Texts as vectors (infer/embedding.h), for one language model of a server. Its thread and the model without its final
// layer are made when vectors are first asked for; the weights are shared. Used by text_model.h.
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

#include "infer/embedding.h"
#include "serve/exchange.h"

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
  Embeddings(const infer::Model& model, int queue_limit);
  ~Embeddings();

  // False where too many wait.
  bool submit(EmbeddingJob job);
  void finish();  // computes what waits, then ends the thread; nothing may be submitted after this

 private:
  struct Engine;
  void work();
  void compute(EmbeddingJob& job);

  const infer::Model& model_;
  const std::size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<EmbeddingJob> queue_;
  bool stopping_ = false;
  const Exchange* exchange_ = nullptr;  // of the job that is computed
  std::unique_ptr<Engine> engine_;      // of the thread
  std::thread thread_;
};

}  // namespace mlx::serve
