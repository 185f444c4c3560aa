// One token after the other, whatever number of rows of logits comes at a time.

#include "infer/text_writer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mlx::infer {

bool ends_with(std::span<const std::int32_t> tokens, std::span<const std::int32_t> stop) {
  return !stop.empty() && tokens.size() >= stop.size() && std::ranges::equal(tokens.last(stop.size()), stop);
}

Drawer::Drawer(std::shared_ptr<const TextRequest> request) : request_(std::move(request)) {
  if (!request_->grammar) return;
  matcher_.emplace(request_->grammar);
  complete_ = matcher_->complete();
}

std::optional<std::int32_t> Drawer::draw(std::span<const float> logits) {
  CHECK(!complete_);
  std::shared_ptr<const grammar::Mask> mask;
  if (matcher_) {
    mask = matcher_->allowed();
    complete_ = mask->tokens == 0;
    if (complete_) return {};
  }
  const std::int32_t token = infer::draw(logits, request_->sampling, request_->sample, tokens_.size(),
                                         {request_->prompt, tokens_}, mask ? TokenMask(mask->bits) : TokenMask());
  if (matcher_) {
    complete_ = !matcher_->accept(token);
    if (complete_) return {};
    complete_ = matcher_->complete();
  }
  tokens_.push_back(token);
  return token;
}

TextWriter::TextWriter(TextRequest request)
    : drawer_(std::make_shared<const TextRequest>(std::move(request))),
      ended_(drawer_.request().count == 0 || drawer_.complete()) {}

bool TextWriter::write_one(std::span<const float> logits) {
  const std::optional<std::int32_t> token = drawer_.draw(logits);
  if (!token) return ended_ = true, false;
  if (request().logprobs != kNoLogprobs) logprobs_.push_back(log_probabilities(logits, *token, request().logprobs));
  stopped_ = std::ranges::any_of(request().stops, [this](const auto& stop) { return ends_with(tokens(), stop); });
  ended_ = stopped_ || drawer_.complete() || static_cast<std::int64_t>(tokens().size()) == request().count;
  return true;
}

std::int64_t TextWriter::write(std::span<const std::span<const float>> rows, std::span<const std::int32_t> proposed) {
  CHECK(rows.size() == proposed.size() + 1);
  proposed_ += static_cast<std::int64_t>(proposed.size());
  std::int64_t drawn = 0;
  for (std::size_t i = 0; i < rows.size() && write_one(rows[i]); ++i) {
    ++drawn;
    const bool as_proposed = i < proposed.size() && tokens().back() == proposed[i];
    if (as_proposed) ++accepted_;
    if (!as_proposed || ended_) break;
  }
  return drawn;
}

void TextWriter::emit() {
  while (emitted_ < tokens().size()) {
    const std::size_t i = emitted_++;
    request().emit({tokens()[i], logprobs_.empty() ? nullptr : &logprobs_[i]});
  }
}

Generated TextWriter::finish() {
  return {.tokens = drawer_.tokens(),
          .logprobs = std::move(logprobs_),
          .stopped = stopped_,
          .complete = drawer_.complete(),
          .proposed = proposed_,
          .accepted = accepted_};
}

}  // namespace mlx::infer
