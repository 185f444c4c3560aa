// Prefill and decoding in one session, whose cache holds one sequence. A graph that cannot have
// a cache processes the whole sequence for each new token.

#include "infer/generate.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "infer/chunks.h"
#include "infer/session.h"

namespace mlx::infer {
namespace {

graph::DecodingGraph decoding_of(const Model& model) {
  const graph::Graph& graph = model.graph();
  if (graph::decodes_with_cache(graph)) return graph::to_decoding(graph, 0, model.cache());
  if (graph::is_encoder(graph)) fail(ErrorKind::kUsage, "an encoder gives vectors and writes no text");
  if (!graph::is_language_model(graph)) fail(ErrorKind::kUsage, "the graph is not a language model");
  return {graph, graph.inputs[0], graph::kNone, graph::kNone, graph.outputs[0], model.signature().context};
}

}  // namespace

struct Generator::State {
  State(const Model& model, std::function<void()> between)
      : check(std::move(between)),
        decoding(decoding_of(model)),
        session(decoding.graph, model.about().weights, session_options(model), model.pool()) {}

  std::function<void()> check;
  graph::DecodingGraph decoding;
  graph::Session session;
  std::int32_t held = 0;                 // positions that the cache holds
  std::vector<std::int32_t> sequence{};  // what is held
  std::vector<std::int32_t> padded{};

  bool has_cache() const { return decoding.positions != graph::kNone; }

  using Rows = std::function<void(std::span<const float>)>;

  // Of the last of `count` tokens that went through the graph in a chunk; `each` gets those of all.
  std::span<const float> last_logits(std::size_t chunk, std::size_t count, const Rows& each) const {
    const ByteView logits = session.output(decoding.logits);
    const std::size_t vocabulary = logits.size() / sizeof(float) / chunk;
    const std::span<const float> rows(reinterpret_cast<const float*>(logits.data()), count * vocabulary);
    if (each) each(rows);
    return rows.last(vocabulary);
  }

  void pad(std::span<const std::int32_t> tokens, std::size_t chunk) {
    padded.assign(chunk, 0);
    std::ranges::copy(tokens, padded.begin());
  }

  std::span<const float> advance_whole(std::span<const std::int32_t> tokens, const Rows& each) {
    check();
    sequence.insert(sequence.end(), tokens.begin(), tokens.end());
    const std::size_t chunk = std::min(std::bit_ceil(sequence.size()), static_cast<std::size_t>(decoding.context));
    pad(sequence, chunk);
    session.run({{decoding.ids, padded.data(), {1, static_cast<std::int64_t>(chunk)}}});
    held = static_cast<std::int32_t>(sequence.size());
    return last_logits(chunk, sequence.size(), each);
  }

  // Appends `tokens` to the cached sequence; returns the logits of the last one. `each` gets those of all, in order.
  std::span<const float> advance(std::span<const std::int32_t> tokens, const Rows& each = nullptr) {
    if (!has_cache()) return advance_whole(tokens, each);
    std::span<const float> last;
    while (!tokens.empty()) {
      check();
      const auto left = static_cast<std::int64_t>(tokens.size());
      const auto chunk = static_cast<std::size_t>(chunk_for(left, decoding.context - held));
      const std::size_t count = std::min(chunk, tokens.size());
      pad(tokens.first(count), chunk);
      session.run(
          {{decoding.ids, padded.data(), {1, static_cast<std::int64_t>(chunk)}}, {decoding.positions, &held, {1}}});
      held += static_cast<std::int32_t>(count);
      sequence.insert(sequence.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
      tokens = tokens.subspan(count);
      last = last_logits(chunk, count, each);
    }
    return last;
  }

  // Goes back to what the sequence has in common with `tokens`, at most so many of them; returns how many.
  std::size_t keep(std::span<const std::int32_t> tokens, std::size_t most) {
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(sequence, tokens).in1 - sequence.begin());
    sequence.resize(std::min(same, most));
    held = static_cast<std::int32_t>(sequence.size());
    return sequence.size();
  }

  std::size_t vocabulary() const {
    return static_cast<std::size_t>(decoding.graph.value(decoding.logits).dims.back().size);
  }

  std::span<const float> restart(std::span<const std::int32_t> tokens, const Rows& each = nullptr) {
    held = 0;
    sequence.clear();
    return advance(tokens, each);
  }
};

Generator::Generator(const Model& model, std::function<void()> check)
    : state_(std::make_unique<State>(model, std::move(check))) {}

Generator::~Generator() = default;

std::int64_t Generator::context() const {
  return state_->decoding.context;
}

std::size_t Generator::cache_bytes() const {
  return state_->session.own_state_bytes();
}

std::int64_t Generator::plans() const {
  return state_->session.plans();
}

void Generator::prepare() {
  state_->restart(std::vector<std::int32_t>(1));
}

void Generator::warm_up() {
  for (const std::int64_t size : kChunks) {
    if (size > context()) break;
    state_->restart(std::vector<std::int32_t>(static_cast<std::size_t>(size)));
  }
}

Generated Generator::generate(const TextRequest& request) {
  if (request.prompt.empty()) fail(ErrorKind::kUsage, "the prompt is empty");
  State& s = *state_;
  const auto last = [](const std::vector<std::int32_t>& tokens, std::int64_t most) {
    return std::span(tokens).last(std::min(tokens.size(), static_cast<std::size_t>(most)));
  };
  TextWriter writer(request);
  std::vector<std::int32_t> all = request.prompt;
  std::span<const float> logits = s.restart(last(all, context()));
  while (!writer.ended()) {
    if (all.size() > request.prompt.size()) {
      const bool full = s.held + 1 > context();
      logits = full ? s.restart(last(all, std::max<std::int64_t>(1, context() / 2))) : s.advance(last(all, 1));
    }
    if (writer.write({&logits, 1}) == 0) break;
    all.push_back(writer.tokens().back());
    writer.emit();
  }
  return writer.finish();
}

Generated Generator::generate(const std::vector<std::int32_t>& prompt, std::int64_t count, const Sampling& sampling,
                              std::uint64_t sample, const std::vector<std::int32_t>& stop,
                              const std::function<void(std::int32_t)>& emit) {
  TextRequest request{.prompt = prompt, .count = count, .sampling = sampling, .sample = sample, .stops = {stop}};
  request.emit = [&emit](const Drawn& drawn) { emit(drawn.token); };
  return generate(request);
}

std::span<const float> Generator::follow(std::span<const std::int32_t> tokens) {
  CHECK(!tokens.empty() && static_cast<std::int64_t>(tokens.size()) <= context());
  return state_->advance(tokens.subspan(state_->keep(tokens, tokens.size() - 1)));
}

void Generator::follow_each(std::span<const std::int32_t> tokens, std::size_t first, bool afresh,
                            const std::function<void(std::span<const float>)>& emit) {
  CHECK(first < tokens.size() && static_cast<std::int64_t>(tokens.size()) <= context());
  State& s = *state_;
  const std::size_t kept = s.keep(tokens, afresh ? 0 : first), vocabulary = s.vocabulary();
  std::size_t skipped = first - (s.has_cache() ? kept : 0);
  s.advance(tokens.subspan(kept), [&](std::span<const float> rows) {
    for (std::size_t at = 0; at < rows.size(); at += vocabulary) {
      if (skipped == 0)
        emit(rows.subspan(at, vocabulary));
      else
        --skipped;
    }
  });
}

void Generator::logits(const std::vector<std::int32_t>& tokens,
                       const std::function<void(std::span<const float>)>& emit) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count < 1 || count > context())
    fail(ErrorKind::kUsage, "{} tokens: expected 1 to {}, the model's context", count, context());
  state_->restart(tokens, emit);
}

std::vector<std::int32_t> prompt_tokens(const data::Tokenizer& tokenizer, const std::string& prompt,
                                        std::string_view what, bool special) {
  if (special) {
    std::vector<std::int32_t> tokens = tokenizer.encode_placed(prompt, what, true).ids;
    if (!tokens.empty()) return tokens;
  }
  if (!prompt.empty()) return tokenizer.encode(prompt, what);
  std::int64_t unknown = 0;
  const std::vector<std::int32_t> newline = tokenizer.encode("\n", "a newline", &unknown);
  return unknown == 0 ? newline : std::vector<std::int32_t>{0};
}

}  // namespace mlx::infer
