// See embeddings.h.
#include "serve/embeddings.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"

namespace mlx::serve {
namespace {

struct NobodyWaits {};

}  // namespace

// The model without its final layer, and what pools its states.
struct Embeddings::Engine {
  explicit Engine(const infer::Model& of) : model(infer::without_head(of.about()), of.backend(), of.pool()) {}

  infer::Model model;
  std::map<infer::Pooling, infer::Embedder> by_pooling{};
};

Embeddings::Embeddings(const infer::Model& model, int queue_limit)
    : model_(model), queue_limit_(static_cast<std::size_t>(queue_limit)) {}

Embeddings::~Embeddings() {
  finish();
}

bool Embeddings::submit(EmbeddingJob job) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= queue_limit_) return false;
    queue_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_one();
  return true;
}

void Embeddings::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Embeddings::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    EmbeddingJob job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    exchange_ = job.exchange.get();
    try {
      compute(job);
    } catch (const NobodyWaits&) {
      // Its exchange is let go.
    } catch (const Error& error) {
      const bool of_model = error.kind == ErrorKind::kCorrupt;
      job.exchange->reply(of_model ? error_reply(500, error.message) : error_reply(error));
    } catch (const std::exception& error) {
      job.exchange->reply(error_reply(500, error.what()));
    }
  }
}

void Embeddings::compute(EmbeddingJob& job) {
  if (!engine_) engine_ = std::make_unique<Engine>(model_);
  const auto check = [this] {
    if (exchange_->gone()) throw NobodyWaits{};
  };
  infer::Embedder& embedder =
      engine_->by_pooling.try_emplace(job.pooling, engine_->model, infer::Pooled{job.pooling, true}, check)
          .first->second;
  job.exchange->reply(job.answer(embedder.embed(job.texts)));
}

}  // namespace mlx::serve
