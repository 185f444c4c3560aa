// See embeddings.h.
#include "serve/embeddings.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/clock.h"
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

Embeddings::Embeddings(const infer::Model& model, int queue_limit, ModelMetrics& metrics)
    : model_(model), queue_limit_(static_cast<std::size_t>(queue_limit)), metrics_(metrics) {}

Embeddings::~Embeddings() {
  finish();
}

bool Embeddings::submit(EmbeddingJob job) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= queue_limit_) return false;
    queue_.push_back({std::move(job), seconds_now()});
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
    Waiting next = std::move(queue_.front());
    EmbeddingJob& job = next.job;
    queue_.pop_front();
    lock.unlock();
    exchange_ = job.exchange.get();
    try {
      compute(job, next.since);
    } catch (const NobodyWaits&) {
      // Its exchange is let go.
    } catch (const Error& error) {
      const bool of_model = error.kind == ErrorKind::kCorrupt;
      if (of_model) metrics_.failed();
      job.exchange->reply(of_model ? error_reply(500, error.message) : error_reply(error));
    } catch (const std::exception& error) {
      metrics_.failed();
      job.exchange->reply(error_reply(500, error.what()));
    }
  }
}

infer::Embedder& Embeddings::embedder(infer::Pooling pooling) {
  if (!engine_) engine_ = std::make_unique<Engine>(model_);
  const auto check = [this] {
    if (exchange_ != nullptr && exchange_->gone()) throw NobodyWaits{};
  };
  return engine_->by_pooling.try_emplace(pooling, engine_->model, infer::Pooled{pooling, true}, check).first->second;
}

void Embeddings::warm_up(infer::Pooling pooling) {
  (void)embedder(pooling).embed(std::vector<infer::Tokens>{{0}});
}

std::int64_t Embeddings::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(queue_.size());
}

void Embeddings::compute(EmbeddingJob& job, double since) {
  const double started = seconds_now();
  const std::vector<std::vector<float>> vectors = embedder(job.pooling).embed(job.texts);
  metrics_.batch(static_cast<std::int64_t>(vectors.size()), seconds_now() - started);
  Reply reply = job.answer(vectors);
  metrics_.inference(seconds_now() - since);
  job.exchange->reply(std::move(reply));
}

void check_length(const Vectors& vectors, std::size_t tokens, const std::string& what) {
  if (tokens > static_cast<std::size_t>(vectors.context))
    throw RefusedRequest(400, "context_length_exceeded",
                         fmt::format("{} has {} tokens, the model takes {}", what, tokens, vectors.context));
}

std::vector<std::int32_t> vector_tokens(const Vectors& vectors, const std::string& text, const std::string& what,
                                        bool truncate) {
  std::vector<std::int32_t> tokens = vectors.tokenizer.encode_placed(text, what, true).ids;
  if (text.empty() || tokens.empty()) fail(ErrorKind::kUsage, "{}: expected a text that is not empty", what);
  const auto most = static_cast<std::size_t>(vectors.context);
  if (truncate && tokens.size() > most)
    tokens = infer::cut_to(most, tokens, vectors.tokenizer.encode_placed(text, what, false).ids).value_or(tokens);
  check_length(vectors, tokens.size(), what);
  return tokens;
}

}  // namespace mlx::serve
