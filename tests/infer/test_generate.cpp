// Generation: what is drawn follows the probabilities and the seed, and a cache, threads and a full context change
// nothing of what the model says.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "../nn/built.h"
#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "infer/generate.h"
#include "language_model.h"

using namespace mlx;
using namespace mlx::infer;
using mlx::nn::built;
using mlx::nn::initialize;
using test::kVocabulary;
using test::model_of;

namespace {

std::vector<std::int32_t> generated(const nn::Model& model, const std::vector<std::int32_t>& prompt, std::int64_t count,
                                    const Sampling& sampling, int threads = 2, std::uint64_t sample = 0) {
  Pool pool(threads);
  const Model ready(model, kernels::best_backend(), pool);
  Generator generator(ready);
  std::vector<std::int32_t> emitted;
  const Generated out =
      generator.generate(prompt, count, sampling, sample, {}, [&](std::int32_t token) { emitted.push_back(token); });
  CHECK(emitted == out.tokens);
  return out.tokens;
}

// The likeliest token after `tokens`, by evaluating them whole.
std::int32_t likeliest(const nn::Model& model, graph::Session& session, std::span<const std::int32_t> tokens) {
  session.run({{session.graph().find("ids"), tokens.data(), {1, static_cast<std::int64_t>(tokens.size())}}});
  std::vector<float> last(kVocabulary);
  const ByteView all = session.output(session.graph().outputs[0]);
  std::memcpy(last.data(), all.data() + all.size() - 4 * kVocabulary, 4 * kVocabulary);
  return static_cast<std::int32_t>(std::ranges::max_element(last) - last.begin());
}

}  // namespace

TEST_CASE("generate: greedy decoding agrees with whole evaluation, also beyond the context") {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const nn::Model model = model_of(family);
    Pool pool(2);
    graph::SessionOptions options;
    options.backend = kernels::best_backend();
    graph::Session session(graph::to_inference(model.graph), model.weights, options, pool);
    Sampling greedy;
    greedy.temperature = 0;
    const std::vector<std::int32_t> prompt{3, 1, 4}, tokens = generated(model, prompt, 25, greedy);
    REQUIRE(tokens.size() == 25);
    std::vector<std::int32_t> all = prompt;
    std::size_t begin = 0;  // of what the model sees
    for (const std::int32_t token : tokens) {
      if (all.size() - begin > 12) begin = all.size() - 6;  // the last half
      CHECK(token == likeliest(model, session, std::span(all).subspan(begin)));
      all.push_back(token);
    }
    // Of a prompt that is longer than the context the end counts.
    std::vector<std::int32_t> longer(200, 5);
    std::ranges::copy(all.begin(), all.begin() + 12, longer.end() - 12);
    CHECK(generated(model, longer, 1, greedy)[0] == all[12]);
  }
}

// bug: a graph from outside trained and evaluated on text, and could not write any.
TEST_CASE("generate: a graph without a cache writes what the same graph with one writes") {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const nn::Model model = model_of(family);
    nn::Model primitive = model;  // the logits, through an operation that may mix positions
    graph::Attrs same;
    same.axes = kernels::int_list({0, 1, 2});
    primitive.graph.outputs = {
        primitive.graph.add(graph::Op::kTranspose, same, {model.graph.outputs[0]}, "logits.again")[0]};
    CHECK(graph::decodes_with_cache(graph::to_inference(model.graph)));
    CHECK_FALSE(graph::decodes_with_cache(graph::to_inference(primitive.graph)));
    Sampling greedy;
    greedy.temperature = 0;
    CHECK(generated(primitive, {3, 1, 4}, 25, greedy) == generated(model, {3, 1, 4}, 25, greedy));
    std::vector<std::int32_t> longer(200, 5);
    CHECK(generated(primitive, longer, 3, greedy) == generated(model, longer, 3, greedy));
  }
}

TEST_CASE("generate: the same seed gives the same tokens with any number of threads, another seed others") {
  const nn::Model model = model_of("llama", 64);
  const Sampling sampling;
  const std::vector<std::int32_t> one = generated(model, {1}, 40, sampling, 1);
  CHECK(generated(model, {1}, 40, sampling, 2) == one);
  CHECK(generated(model, {1}, 40, sampling, 3) == one);
  CHECK(generated(model, {1}, 40, sampling, 2, 1) != one);
  Sampling other;
  other.seed = 2;
  CHECK(generated(model, {1}, 40, other) != one);
  CHECK(generated(model, {1}, 0, sampling).empty());
}

TEST_CASE("generate: ends after the stop sequence; refuses a model that is not a language model") {
  const nn::Model model = model_of("gpt2", 64);
  Pool pool(1);
  const Model ready(model, kernels::best_backend(), pool);
  Generator generator(ready);
  const Sampling sampling;
  const auto ignore = [](std::int32_t) {};
  const std::vector<std::int32_t> all = generator.generate({1}, 30, sampling, 0, {}, ignore).tokens;
  const std::vector<std::int32_t> stop{all[9], all[10]};
  const Generated out = generator.generate({1}, 30, sampling, 0, stop, ignore);
  CHECK(out.stopped);
  CHECK(out.tokens.size() <= 11);
  CHECK(std::ranges::equal(std::span(out.tokens).last(2), stop));
  CHECK(std::ranges::equal(out.tokens, std::span(all).first(out.tokens.size())));
  nn::Model image;
  image.graph = built("family = \"mlp\"\nhidden = [3]\n").graph;
  image.weights = std::make_shared<const graph::Weights>(initialize(image.graph, "mlp", 1));
  const Model no_language(image, kernels::best_backend(), pool);
  CHECK_THROWS_AS(Generator{no_language}, Error);
}

TEST_CASE("generate: bug: prompts of any length are planned in a few sizes, and padding changes no bit") {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    Pool pool(2);
    const Model model(model_of(family, 80), kernels::best_backend(), pool);
    Generator generator(model);
    graph::SessionOptions options;
    options.backend = model.backend();
    const graph::DecodingGraph decoding = graph::to_decoding(model.graph());
    graph::Session whole(decoding.graph, model.about().weights, options, pool);
    Sampling sampling;
    sampling.temperature = 3;  // a changed bit of the logits would soon change a token
    std::vector<std::int32_t> prompt;
    for (std::int32_t length = 1; length <= 80; ++length) {
      prompt.push_back(length * 5 % kVocabulary);
      const Generated out =
          generator.generate(prompt, 1, sampling, static_cast<std::uint64_t>(length), {}, [](std::int32_t) {});
      // The prompt at once, in its own size.
      const std::int32_t begin = 0;
      whole.run({{decoding.ids, prompt.data(), {1, length}}, {decoding.positions, &begin, {1}}});
      const ByteView all = whole.output(decoding.logits);
      const auto* logits = reinterpret_cast<const float*>(all.data()) + (length - 1) * kVocabulary;
      CHECK(draw({logits, kVocabulary}, sampling, static_cast<std::uint64_t>(length), 0) == out.tokens.at(0));
    }
    CHECK(generator.plans() <= 6);
    CHECK(whole.plans() == 80);
  }
}

TEST_CASE("draw: min-p and typical keep what they say") {
  // Probabilities 0.5, 0.25, 0.125 and four times 1/32; the entropy is 2 bits.
  std::vector<float> logits;
  for (const double p : {0.5, 0.25, 0.125, 0.03125, 0.03125, 0.03125, 0.03125})
    logits.push_back(static_cast<float>(std::log(p)));
  const auto drawn = [&](const Sampling& sampling) {
    std::set<std::int32_t> out;
    for (std::uint64_t i = 0; i < 4000; ++i) out.insert(draw(logits, sampling, 0, i));
    return out;
  };
  CHECK(drawn({.min_p = 0.2}) == std::set<std::int32_t>{0, 1, 2});
  CHECK(drawn({.min_p = 1}) == std::set<std::int32_t>{0});
  CHECK(drawn({.typical = 0.2}) == std::set<std::int32_t>{1});  // whose information is the entropy
  CHECK(drawn({.typical = 0.85}) == std::set<std::int32_t>{0, 1, 2});
  CHECK(drawn({.typical = 0.85, .top_p = 0.6}) == std::set<std::int32_t>{0, 1});
  CHECK(drawn({}).size() == 7);
}

TEST_CASE("draw: biases and penalties change the logits of the tokens that they are for") {
  const std::vector<float> logits{1.0f, 2.0f, -1.0f, 1.5f};
  const std::vector<std::int32_t> prompt{1, 2}, text{3, 3, 1};
  const auto best = [&](Sampling sampling, const Before& before = {}) {
    sampling.temperature = 0;
    return draw(logits, sampling, 0, 0, before);
  };
  CHECK(best({}) == 1);
  CHECK(best({.bias = {{2, 10.0}}}) == 2);
  CHECK(best({.bias = {{1, -100.0}}}) == 3);
  CHECK(best({.repetition = 1.5}, {prompt, {}}) == 3);  // 2 / 1.5 is less than 1.5
  CHECK(best({.repetition = 3}, {prompt, text}) == 0);  // 1 and 3 are both there
  CHECK(best({.repetition = 0.1}, {{prompt.data(), 1}, {}}) == 1);
  CHECK(best({.frequency = 0.6}, {prompt, text}) == 1);  // 2 - 0.6 beside 1.5 - 1.2 and 1
  CHECK(best({.frequency = 1.1}, {{}, text}) == 0);
  CHECK(best({.presence = 0.6}, {{}, {text.data(), 1}}) == 1);
  CHECK(best({.presence = 1.2}, {prompt, text}) == 0);
  CHECK(best({.presence = 1.2}, {prompt, {}}) == 1);  // the prompt is no text
  for (const std::int32_t token : {-1, 4}) CHECK_THROWS_AS(best({.bias = {{token, 1.0}}}), Error);
  for (const Sampling& wrong : {Sampling{.repetition = 0}, Sampling{.typical = 0}, Sampling{.typical = 1.1},
                                Sampling{.min_p = -0.1}, Sampling{.min_p = 1.5}, Sampling{.min_p = NAN}})
    CHECK_THROWS_AS(draw(logits, wrong, 0, 0), Error);
}

TEST_CASE("draw: all tokens are ordered as the most likely ones are, equal ones and zeros of either sign by number") {
  std::vector<float> logits;
  for (int i = 0; i < 600; ++i) logits.push_back(static_cast<float>(i * 7 % 13 - 6) * (i % 2 == 0 ? 0.25f : -0.25f));
  for (const float x : {0.0f, -0.0f, 0.0f, 1e-40f, -1e-40f, -INFINITY}) logits.push_back(x);
  logits.push_back(-900);  // never drawn
  Sampling all, most;
  most.top_k = static_cast<std::int64_t>(logits.size()) - 2;  // all but that and the infinite one
  for (std::uint64_t i = 0; i < 4000; ++i) CHECK(draw(logits, all, 0, i) == draw(logits, most, 0, i));
}

TEST_CASE("draw: frequencies match the probabilities; temperature, top-k and top-p have their effect") {
  const std::vector<float> logits{0.0f, 2.0f, -1.0f, 1.0f, 2.0f, -INFINITY};
  const auto frequencies = [&](const Sampling& sampling) {
    std::map<std::int32_t, double> out;
    for (std::uint64_t i = 0; i < 20000; ++i) out[draw(logits, sampling, 0, i)] += 1.0 / 20000;
    return out;
  };
  Sampling sampling;
  sampling.temperature = 0.7;
  auto got = frequencies(sampling);
  double total = 0;
  for (const float logit : logits) total += std::exp(logit / 0.7);
  for (std::int32_t token = 0; token < 5; ++token)
    CHECK(got[token] == doctest::Approx(std::exp(logits[static_cast<std::size_t>(token)] / 0.7) / total).epsilon(0.08));
  CHECK_FALSE(got.contains(5));
  sampling.top_k = 3;
  got = frequencies(sampling);
  CHECK(got.size() == 3);
  CHECK((got.contains(1) && got.contains(3) && got.contains(4)));
  sampling.top_k = 1;
  CHECK(frequencies(sampling).begin()->first == 1);  // the first of equals
  sampling = {};
  sampling.top_p = 0.5;  // the two likeliest have 0.37 each
  got = frequencies(sampling);
  CHECK(got.size() == 2);
  CHECK((got.contains(1) && got.contains(4)));
  sampling.temperature = 0;
  CHECK(draw(logits, sampling, 0, 0) == 1);
  sampling.top_p = 0;
  CHECK_THROWS_AS(draw(logits, sampling, 0, 0), Error);
  CHECK_THROWS_AS(draw(std::vector<float>{1.0f, NAN}, {}, 0, 0), Error);
}
