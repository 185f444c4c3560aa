// A two-layer GPT goes through the same planner as the image nets: it is trained until its loss falls, and then decodes
// two growing sequences of different lengths in one batch with a cache of keys and values, equal to full evaluation.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "kernels/philox.h"
#include "nn/family.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

const std::string kText =
    "the cat sat on the mat and the dog sat on the log. the cat saw the dog and the dog saw the cat. "
    "a cat on a mat and a dog on a log sat and saw. the mat and the log saw no cat and no dog. ";

constexpr std::int64_t kSequences = 8, kSequence = 24;
const nn::GptConfig kConfig{28, 48, 32, 4, 2, 0.05f};  // vocabulary, context, width, heads, layers, dropout

std::int32_t token(char c) {
  return c == ' ' ? 26 : c == '.' ? 27 : c - 'a';
}
std::vector<std::int32_t> tokens(const std::string& text) {
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(token(c));
  return ids;
}

Tensors initial(const Graph& g) {
  Tensors tensors;
  const std::vector<std::int64_t> ones(g.symbols.size(), 1);
  for (const Value& value : g.values) {
    if (value.role != Role::kParameter) continue;
    const kernels::Shape shape = concrete(value, ones);
    Tensor tensor{shape, Bytes(shape.bytes())};
    auto* data = reinterpret_cast<float*>(tensor.data.data());
    std::uint64_t stream = 1;
    for (const char c : value.name) stream = stream * 131 + static_cast<unsigned char>(c);
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      const float uniform = 2 * kernels::to_unit(kernels::random_u32(1, stream, 0, static_cast<std::uint64_t>(i))) - 1;
      const bool gamma = value.name.ends_with("gamma");
      data[i] = gamma ? 1.0f : shape.rank > 1 ? 0.12f * uniform : 0.0f;
    }
    tensors[value.name] = std::move(tensor);
  }
  return tensors;
}

struct Trained {
  Tensors tensors;
  std::vector<float> losses;
};

Trained train(kernels::Backend backend, int steps, int threads) {
  OptimizerSpec adamw;
  adamw.name = "adamw";
  adamw.weight_decay = 0.01f;
  const TrainingGraph training = to_training(nn::build_gpt2(kConfig), adamw, 0.0f);
  SessionOptions options;
  options.backend = backend;
  options.training = true;
  options.seed = 3;
  Pool pool(threads);
  Session session(training.graph, initial(training.graph), options, pool);
  const std::vector<std::int32_t> text = tokens(kText);
  const float rate = 3e-3f;
  Trained trained;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::int32_t> ids, labels;
    for (std::int64_t b = 0; b < kSequences; ++b) {
      const auto draw = kernels::random_u32(9, 0, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(b));
      const std::size_t start = draw % (text.size() - kSequence - 1);
      for (std::size_t t = 0; t < kSequence; ++t) {
        ids.push_back(text[start + t]);
        labels.push_back(text[start + t + 1]);
      }
    }
    session.run({{training.graph.find("ids"), ids.data(), {kSequences, kSequence}},
                 {training.labels, labels.data(), {kSequences, kSequence}},
                 {training.learning_rate, &rate, {1}}},
                static_cast<std::uint64_t>(step));
    float loss = 0;
    std::memcpy(&loss, session.output(training.loss).data(), 4);
    trained.losses.push_back(loss);
  }
  trained.tensors = session.tensors();
  return trained;
}

Tensors parameters_of(const Graph& g, const Tensors& trained) {
  Tensors tensors;
  for (const Value& value : g.values) {
    if (value.role == Role::kParameter) tensors[value.name] = trained.at(value.name);
  }
  return tensors;
}

std::vector<float> row(const Session& session, ValueId logits, std::int64_t at) {
  std::vector<float> out(static_cast<std::size_t>(kConfig.vocabulary));
  std::memcpy(out.data(), session.output(logits).data() + static_cast<std::size_t>(at) * out.size() * 4,
              out.size() * 4);
  return out;
}

std::int32_t best(const std::vector<float>& logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Both evaluate the same weights: `full` the whole prefix again each time, `cached` only what is new.
struct Decoders {
  Graph whole = to_inference(nn::build_gpt2(kConfig)), growing = to_decoding(whole).graph;
  Pool pool{2};
  Session full, cached;
  kernels::Backend backend;

  Decoders(const Tensors& trained, kernels::Backend at)
      : full(whole, parameters_of(whole, trained), options(at), pool),
        cached(growing, parameters_of(growing, trained), options(at), pool),
        backend(at) {}
  static SessionOptions options(kernels::Backend at) {
    SessionOptions o;
    o.backend = at;
    return o;
  }

  // Feeds `count` new tokens of each sequence, which already hold `positions`.
  void advance(const std::vector<std::int32_t>& ids, std::int64_t count, const std::vector<std::int32_t>& positions) {
    const auto batch = static_cast<std::int64_t>(positions.size());
    cached.run(
        {{growing.find("ids"), ids.data(), {batch, count}}, {growing.find("positions"), positions.data(), {batch}}});
  }

  // What follows the whole prefix, checked against row `at` of the cached session's logits; returns the likeliest
  // token.
  std::int32_t check(const std::vector<std::int32_t>& prefix, std::int64_t at) {
    const auto length = static_cast<std::int64_t>(prefix.size());
    full.run({{whole.find("ids"), prefix.data(), {1, length}}});
    const std::vector<float> expected = row(full, whole.outputs[0], length - 1),
                             got = row(cached, growing.outputs[0], at);
    CAPTURE(length);
    if (backend == kernels::backend_named("ref")) CHECK(std::memcmp(expected.data(), got.data(), got.size() * 4) == 0);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-3f);
    CHECK(best(got) == best(expected));
    return best(got);
  }
};

void decode_two(const Tensors& trained, kernels::Backend backend) {
  const std::string level_name = backend.name();
  CAPTURE(level_name);
  Decoders decoders(trained, backend);
  std::vector<std::vector<std::int32_t>> sequences{tokens("the c"), tokens("a dog on a")};
  // Both prompts at once, as long as the longer one; what stands behind the shorter is overwritten later and never
  // attended to.
  const std::size_t longest = sequences[1].size();
  std::vector<std::int32_t> ids;
  for (std::vector<std::int32_t> padded : sequences) {
    padded.resize(longest, 0);
    ids.insert(ids.end(), padded.begin(), padded.end());
  }
  decoders.advance(ids, static_cast<std::int64_t>(longest), {0, 0});
  std::vector<std::int32_t> next;
  for (std::size_t b = 0; b < 2; ++b) {
    next.push_back(decoders.check(sequences[b], static_cast<std::int64_t>(b * longest + sequences[b].size() - 1)));
  }
  for (int step = 0; step < 12; ++step) {  // one token of each at a time
    const std::vector<std::int32_t> positions{static_cast<std::int32_t>(sequences[0].size()),
                                              static_cast<std::int32_t>(sequences[1].size())};
    decoders.advance(next, 1, positions);
    for (std::size_t b = 0; b < 2; ++b) {
      sequences[b].push_back(next[b]);
      next[b] = decoders.check(sequences[b], static_cast<std::int64_t>(b));
    }
  }
  // Three more at once, which both sequences take in from where they stand.
  const std::vector<std::int32_t> positions{static_cast<std::int32_t>(sequences[0].size()),
                                            static_cast<std::int32_t>(sequences[1].size())};
  const std::vector<std::int32_t> more = tokens("catdog");
  decoders.advance(more, 3, positions);
  for (std::size_t b = 0; b < 2; ++b) {
    sequences[b].insert(sequences[b].end(), more.begin() + static_cast<std::ptrdiff_t>(3 * b),
                        more.begin() + static_cast<std::ptrdiff_t>(3 * b + 3));
    decoders.check(sequences[b], static_cast<std::int64_t>(3 * b + 2));
  }
}

}  // namespace

TEST_CASE("a two-layer GPT learns, and decodes two growing sequences in one batch equal to full evaluation") {
  const Trained trained = train(kernels::best_backend(), 150, 2);
  MESSAGE("loss " << trained.losses.front() << " → " << trained.losses.back());
  CHECK(trained.losses.front() > 2.5f);  // near log 28
  CHECK(trained.losses.back() < 0.5f * trained.losses.front());
  decode_two(trained.tensors, kernels::backend_named("ref"));
  decode_two(trained.tensors, kernels::best_backend());
}

TEST_CASE("the GPT's training does not depend on threads, and the reference learns the same") {
  const Trained one = train(kernels::best_backend(), 5, 1), three = train(kernels::best_backend(), 5, 3);
  CHECK(one.losses == three.losses);
  for (const auto& each : one.tensors) {
    CHECK_MESSAGE(each.second.data == three.tensors.at(each.first).data, each.first << " differs");
  }
  const Trained reference = train(kernels::backend_named("ref"), 5, 2);
  for (std::size_t i = 0; i < 5; ++i) CHECK(reference.losses[i] == doctest::Approx(one.losses[i]).epsilon(1e-3));
}

TEST_CASE("a cache keeps its batch, and has the names and weights of the whole-sequence graph") {
  Decoders decoders(initial(nn::build_gpt2(kConfig)), kernels::backend_named("ref"));
  decoders.advance(tokens("ab"), 1, {0, 0});
  CHECK_THROWS_AS(decoders.advance(tokens("abc"), 1, {1, 1, 0}), Error);
  CHECK_NOTHROW(decoders.advance(tokens("cd"), 1, {1, 1}));
  CHECK_THROWS_AS(nn::build_gpt2({28, 48, 32, 5, 2, 0}), Error);
}
