#include "infer/encoder.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "infer/session.h"

namespace mlx::infer {
namespace {

constexpr std::size_t kShortest = 16;     // tokens that a text is padded to; oneDNN's slices have multiples of it
constexpr std::size_t kRowsAtOnce = 128;  // of a pass, if its texts are not longer: enough to reuse the weights

std::size_t padded_length(std::size_t tokens) {
  return std::bit_ceil(std::max(tokens, kShortest));
}

}  // namespace

struct Encoder::State {
  State(const Model& model, std::function<void()> between)
      : check(std::move(between)),
        encoding(graph::to_encoding(model.graph())),
        session(encoding.graph, model.about().weights, session_options(model), model.pool()),
        context(model.signature().context),
        width(encoding.graph.value(encoding.states).dims.back().size) {}

  std::function<void()> check;
  graph::EncodingGraph encoding;
  graph::Session session;
  std::int64_t context, width;
  std::vector<std::int32_t> ids{}, lengths{};

  using Emit = std::function<void(std::size_t, std::span<const float>)>;

  // Some texts of one padded length; what is left of the pass are texts without tokens.
  void pass(std::span<const Tokens> texts, std::span<const std::size_t> some, std::size_t length, std::size_t count,
            const Emit& emit) {
    check();
    ids.assign(count * length, 0);
    lengths.assign(count, 0);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Tokens& tokens = texts[some[i]];
      std::ranges::copy(tokens, ids.begin() + static_cast<std::ptrdiff_t>(i * length));
      lengths[i] = static_cast<std::int32_t>(tokens.size());
    }
    const auto batch = static_cast<std::int64_t>(count);
    session.run({{encoding.ids, ids.data(), {batch, static_cast<std::int64_t>(length)}},
                 {encoding.lengths, lengths.data(), {batch}}});
    const auto* const states = reinterpret_cast<const float*>(session.output(encoding.states).data());
    const auto row = static_cast<std::size_t>(width);
    for (std::size_t i = 0; i < some.size(); ++i)
      emit(some[i], {states + i * length * row, texts[some[i]].size() * row});
  }
};

Encoder::Encoder(const Model& model, std::function<void()> check)
    : state_(std::make_unique<State>(model, std::move(check))) {}

Encoder::~Encoder() = default;

std::int64_t Encoder::context() const {
  return state_->context;
}

std::int64_t Encoder::width() const {
  return state_->width;
}

void Encoder::encode(std::span<const Tokens> texts, const State::Emit& emit) {
  std::map<std::size_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto count = static_cast<std::int64_t>(texts[i].size());
    if (count < 1 || count > context())
      fail(ErrorKind::kUsage, "{} tokens: expected 1 to {}, the model's context", count, context());
    by_length[padded_length(texts[i].size())].push_back(i);
  }
  for (const auto& [length, all] : by_length) {
    const std::size_t count = std::max<std::size_t>(1, kRowsAtOnce / length);
    for (std::size_t at = 0; at < all.size(); at += count)
      state_->pass(texts, std::span(all).subspan(at, std::min(count, all.size() - at)), length, count, emit);
  }
}

}  // namespace mlx::infer
