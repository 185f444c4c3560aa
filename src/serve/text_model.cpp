// See text_model.h.
#include "serve/text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "graph/passes/passes.h"
#include "nn/kept_files.h"
#include "serve/infer_answer.h"

namespace mlx::serve {
namespace {

// What ends a generation that nobody waits for, and one whose answer has enough.
struct ClientGone {};
struct Enough {};

// What texts that are generated together keep: room for kMostTexts of the whole context, but at most so many bytes, and
// at least for one text.
constexpr std::int64_t kCacheBytes = std::int64_t{512} << 20;

std::int64_t cached_positions(const infer::Model& model) {
  const infer::TextRequest whole{.prompt = {}, .count = model.signature().context};
  const std::int64_t context = infer::cache_positions(model, whole);
  const std::int64_t most = kCacheBytes / infer::cache_position_bytes(model);
  return std::clamp(most, context, context * infer::BatchGenerator::kMostTexts);
}

}  // namespace

// A text that is being generated. At a fixed address: the generator calls its answer.
struct TextModel::Running {
  explicit Running(Waiting from) : job(std::move(from.job)), waited_since(from.since), started(seconds_now()) {}

  TextJob job;
  double waited_since, started;
  std::int64_t tokens = 0;
};

TextModel::TextModel(const ModelSpec& spec, const ServerOptions& options)
    : ServedModel(spec),
      tokenizer_(tokenizer_of(spec)),
      ends_(infer::end_tokens(model().about(), tokenizer_)),
      special_(!nn::architecture_of(model().about()).empty()),
      queue_limit_(static_cast<std::size_t>(options.queue_limit)),
      ngram_(options.ngram),
      grammars_(model().about(), tokenizer_),
      embeddings_(model(), options.queue_limit, *metrics_) {
  if (infer::can_batch(model())) {
    batch_.emplace(model(), cached_positions(model())).warm_up();
    free_ = free_of({});
  } else {
    generator_.emplace(model(), [this] { check_client(); }).warm_up();
  }
  thread_ = std::thread([this] { batch_ ? work_together() : work(); });
}

void TextModel::infer(const Request& /*request*/, const ExchangePtr& /*exchange*/) {
  fail(ErrorKind::kUsage, "'{0}' generates text; POST /v2/models/{0}/generate asks it", spec().name);
}

std::vector<std::int32_t> TextModel::prompt_tokens(const std::string& prompt, std::string_view what) const {
  return infer::prompt_tokens(tokenizer_, prompt, what, special_);
}

Vectors TextModel::vectors() {
  const nn::Model& about = model().about();
  return {tokenizer_, context(), graph::vocabulary_size(about.graph), infer::pooling_of(about).pooling, embeddings_};
}

bool TextModel::can_chat() const {
  return nn::chat_template(model().about()).has_value();
}

const infer::Chat& TextModel::chat() {
  if (!chat_) chat_.emplace(model().about(), fmt::format("'{}'", spec().name));
  return *chat_;
}

std::string TextModel::tensors() const {
  const infer::Signature& signature = model().signature();
  return fmt::format("\"inputs\":[{}],\"outputs\":[{}]", tensors_json(signature.inputs),
                     tensors_json(signature.outputs));
}

std::int64_t TextModel::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(queue_.size());
}

void TextModel::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  embeddings_.finish();
}

// Too many wait where they are more than the limit, beside those that can begin with the next step. One request is
// always taken where none waits.
bool TextModel::submit(std::vector<TextJob> jobs) {
  {
    const std::lock_guard lock(mutex_);
    if (!queue_.empty() && queue_.size() + jobs.size() > queue_limit_ + free_) return false;
    for (TextJob& job : jobs) queue_.push_back({std::move(job), seconds_now()});
  }
  changed_.notify_one();
  return true;
}

void TextModel::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    compute(std::move(waiting));
  }
}

// Called by the generator between the parts of a prompt and between tokens.
void TextModel::check_client() const {
  if (exchange_ != nullptr && exchange_->gone()) throw ClientGone{};
}

void TextModel::compute(Waiting waiting) {
  Running text(std::move(waiting));
  exchange_ = text.job.exchange.get();
  try {
    check_client();
    const infer::Generated made = generator_->generate(request_of(text));
    end(text, made);
  } catch (...) {
    end(text, std::current_exception(), {});
  }
}

// Takes texts from the queue while the cache has room for them, and computes a step of all.
void TextModel::work_together() {
  Together running;
  while (accept(running)) {
    drop_gone(running);
    try {
      for (infer::FinishedText& finished : batch_->step()) finish(running, finished);
    } catch (...) {  // of the pass itself, such as no memory for its plan
      drop_all(running, std::current_exception());
    }
  }
}

void TextModel::finish(Together& running, const infer::FinishedText& finished) {
  const auto found = running.find(finished.id);
  if (found == running.end()) return;  // dropped
  finished.error ? end(*found->second, finished.error, finished.text) : end(*found->second, finished.text);
  running.erase(found);
}

void TextModel::drop_gone(Together& running) {
  std::erase_if(running, [&](const auto& each) {
    const auto& [id, text] = each;
    if (!text->job.exchange->gone()) return false;
    batch_->cancel(id);
    end(*text, std::make_exception_ptr(ClientGone{}), {});
    return true;
  });
}

void TextModel::drop_all(Together& running, const std::exception_ptr& error) {
  for (const auto& [id, text] : running) {
    batch_->cancel(id);
    end(*text, error, {});
  }
  running.clear();
}

// Waits for a text if none is running; what cannot begin gets its error. False if there will be no more.
bool TextModel::accept(Together& running) {
  std::unique_lock lock(mutex_);
  if (running.empty()) changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  while (!queue_.empty()) {
    if (!batch_->has_room(queue_.front().job.request)) break;
    auto text = std::make_unique<Running>(std::move(queue_.front()));
    queue_.pop_front();
    try {
      const std::int64_t id = batch_->start(request_of(*text));
      running.emplace(id, std::move(text));
    } catch (...) {  // such as a grammar whose text has too many beginnings
      end(*text, std::current_exception(), {});
    }
  }
  free_ = queue_.empty() ? free_of(running) : 0;  // else the first of the queue has no room
  return !running.empty() || !stopping_;
}

std::size_t TextModel::free_of(const Together& running) {
  return static_cast<std::size_t>(infer::BatchGenerator::kMostTexts) - running.size();
}

infer::TextRequest TextModel::request_of(Running& text) const {
  infer::TextRequest request = std::move(text.job.request);
  request.speculation.ngram = ngram_;
  request.emit = [&text](const infer::Drawn& drawn) {
    ++text.tokens;
    if (!text.job.answer->token(drawn)) throw Enough{};
  };
  return request;
}

void TextModel::end(Running& text, const infer::Generated& made) {
  metrics_->generated(text.tokens, seconds_now() - text.started);
  metrics_->proposed(made.proposed, made.accepted);
  metrics_->shared(made.shared);
  metrics_->inference(seconds_now() - text.waited_since);
  text.job.answer->end(made);
}

// What is wrong with the model is not the client's fault.
void TextModel::end(Running& text, const std::exception_ptr& error, const infer::Generated& made) {
  try {
    std::rethrow_exception(error);
  } catch (const Enough&) {
    end(text, made);
  } catch (const ClientGone&) {
    metrics_->generated(text.tokens, seconds_now() - text.started);
  } catch (const Error& failure) {
    const bool of_model = failure.kind == ErrorKind::kCorrupt;
    if (of_model) metrics_->failed();
    text.job.answer->failed(of_model ? error_reply(500, fmt::format("{}: {}", spec().name, failure.message))
                                     : error_reply(failure));
  } catch (const std::exception& failure) {
    metrics_->failed();
    text.job.answer->failed(error_reply(500, failure.what()));
  }
}

std::unique_ptr<ServedModel> serve_text(const ModelSpec& spec, const ServerOptions& options) {
  return std::make_unique<TextModel>(spec, options);
}

}  // namespace mlx::serve
