// Speculation and log probabilities: no bit of a text depends on them, whatever is proposed, and whoever else is there.

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "infer/batch_generator.h"
#include "infer/speculation.h"
#include "language_model.h"

using namespace mlx;
using namespace mlx::infer;
using test::kVocabulary;
using test::model_of;

namespace {

std::vector<std::int32_t> repetitive(std::size_t length) {
  std::vector<std::int32_t> prompt;
  for (std::size_t i = 0; i < length; ++i) prompt.push_back(static_cast<std::int32_t>(i * i % 7 + 1));
  return prompt;
}

Generated one_text(BatchGenerator& batch, TextRequest request) {
  batch.start(std::move(request));
  for (;;)
    for (FinishedText& finished : batch.step()) {
      if (finished.error) std::rethrow_exception(finished.error);
      return std::move(finished.text);
    }
}

bool same_bits(const std::vector<LogProbabilities>& a, const std::vector<LogProbabilities>& b) {
  const auto same = [](const LogProbability& x, const LogProbability& y) {
    return x.token == y.token && x.value == y.value;
  };
  return std::ranges::equal(a, b, [&](const LogProbabilities& x, const LogProbabilities& y) {
    return same(x.drawn, y.drawn) && std::ranges::equal(x.top, y.top, same);
  });
}

kernels::Backend independent() {
  return kernels::portable_backend(kernels::best_backend());
}

}  // namespace

TEST_CASE("speculation: a text has the same tokens and log probabilities, with any proposals") {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    Pool pool(2);
    const Model model(model_of(family, 150), independent(), pool), same(model_of(family, 150), independent(), pool),
        other(model_of(family == std::string("gpt2") ? "llama" : "gpt2", 40), independent(), pool);
    Generator alone(model);
    std::int64_t accepted = 0;
    for (const double temperature : {0.0, 0.3, 3.0}) {
      TextRequest request{.prompt = repetitive(60), .count = 140, .logprobs = 3};  // fills the context
      request.sampling.temperature = temperature;
      request.sampling.repetition = temperature > 1 ? 1.1 : 1;
      request.sample = 3;
      const Generated expected = alone.generate(request);
      BatchGenerator batch(model, 4000);
      for (const Speculation& how : {Speculation{}, Speculation{.ngram = 2}, Speculation{.ngram = 8},
                                     Speculation{.draft = &same}, Speculation{.draft = &other}}) {
        request.speculation = how;
        std::vector<std::int32_t> emitted;
        request.emit = [&](const Drawn& drawn) {
          emitted.push_back(drawn.token);
          CHECK(drawn.logprobs->drawn.token == drawn.token);
        };
        const Generated text = one_text(batch, request);
        CHECK(text.tokens == expected.tokens);
        CHECK(emitted == expected.tokens);
        CHECK(same_bits(text.logprobs, expected.logprobs));
        CHECK(text.accepted <= text.proposed);
        accepted += text.accepted;
        // The model itself, as a draft, proposes what it draws, until the context is full.
        if (how.draft == &same) CHECK(text.proposed > 70);
        if (how.draft == &same) CHECK(text.accepted > 70);
        if (how.ngram == 0 && !how.draft) CHECK(text.proposed == 0);
      }
      // A stop within what is proposed ends the text there.
      request.speculation = {.ngram = 4};
      request.emit = [](const Drawn&) {};
      request.stops = {{expected.tokens[30], expected.tokens[31]}};
      const Generated stopped = one_text(batch, request);
      request.speculation = {};
      CHECK(stopped.tokens == alone.generate(request).tokens);
      CHECK(stopped.stopped);
    }
    CHECK(accepted > 300);
  }
}

TEST_CASE("speculation: beside other texts each has its own tokens and log probabilities") {
  Pool pool(2);
  const Model model(model_of("llama", 200), independent(), pool);
  Generator alone(model);
  std::vector<TextRequest> requests;
  for (std::size_t i = 0; i < 6; ++i) {
    TextRequest request{
        .prompt = repetitive(20 + 30 * i), .count = static_cast<std::int64_t>(10 + 40 * i), .logprobs = 2};
    request.sampling.temperature = i % 2 == 0 ? 0 : 1;
    request.sample = i;
    request.speculation.ngram = 4;
    requests.push_back(std::move(request));
  }
  BatchGenerator batch(model, 4000);
  for (const TextRequest& request : requests) batch.start(request);
  std::map<std::int64_t, Generated> out;
  while (batch.texts() > 0)
    for (FinishedText& finished : batch.step()) out[finished.id] = std::move(finished.text);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Generated expected = alone.generate(requests[i]);
    CHECK(out.at(static_cast<std::int64_t>(i)).tokens == expected.tokens);
    CHECK(same_bits(out.at(static_cast<std::int64_t>(i)).logprobs, expected.logprobs));
  }
  CHECK(out.at(5).proposed > 0);  // it is the last one, and alone
}

TEST_CASE("speculation: what followed the last tokens before is found, and repeats itself") {
  const auto found = [](std::vector<std::int32_t> tokens, std::int64_t longest, std::int64_t most) {
    const Continuation out = continued(tokens, longest, most);
    return std::pair(out.run, out.tokens);
  };
  using Tokens = std::vector<std::int32_t>;
  CHECK(found({1, 2, 3, 4, 1, 2}, 4, 3) == std::pair(std::int64_t{2}, Tokens{3, 4, 1}));
  CHECK(found({1, 2, 3, 9, 2, 3, 8, 1, 2, 3}, 4, 2) == std::pair(std::int64_t{3}, Tokens{9, 2}));
  CHECK(found({1, 2, 3, 9, 2, 3, 8, 1, 2, 3}, 2, 2) == std::pair(std::int64_t{2}, Tokens{8, 1}));  // the last one
  CHECK(found({7, 7, 7}, 4, 5) == std::pair(std::int64_t{2}, Tokens{7, 7, 7, 7, 7}));
  CHECK(found({5, 6, 5, 6, 5, 6}, 4, 5) == std::pair(std::int64_t{4}, Tokens{5, 6, 5, 6, 5}));
  CHECK(found({1, 2, 3}, 4, 5) == std::pair(std::int64_t{0}, Tokens{}));
  CHECK(found({}, 4, 5).first == 0);
  CHECK(found({1}, 4, 5).first == 0);
  CHECK(parse_ngram("ngram", "x") == 4);
  CHECK(parse_ngram("ngram:16", "x") == 16);
  for (const char* wrong : {"", "ngrams", "ngram:", "ngram:1", "ngram:17", "ngram:3x"})
    CHECK_THROWS_AS(parse_ngram(wrong, "x"), Error);
}

TEST_CASE("speculation: the number of proposals follows how often they were right") {
  ProposalCount count(0);
  CHECK(count.choose(4, 15) > 0);
  for (int i = 0; i < 40; ++i) count.learn(4, 7, 7);
  CHECK(count.choose(4, 15) >= 7);
  CHECK(count.choose(4, 5) == 3);
  CHECK(count.choose(4, 0) == 0);
  for (int i = 0; i < 40; ++i) count.learn(4, 0, 1);
  CHECK(count.choose(4, 15) == 0);
  CHECK(count.choose(3, 15) > 0);  // of other runs
  ProposalCount dear(0.5);
  CHECK(dear.choose(0, 15) <= count.choose(3, 15));
}

TEST_CASE("speculation: a draft of other tokens is refused") {
  Pool pool(1);
  const Model model(model_of("llama", 40), independent(), pool);
  const Model wider(
      test::model_of_config("family = \"gpt2\"\nlayers = 1\nwidth = 32\nheads = 4\ncontext = 12\n", 14, 10),
      independent(), pool);
  CHECK_NOTHROW(check_draft(model, model, "a", "b"));
  CHECK(draft_cost(model, model) == 1);
  CHECK(draft_cost(wider, model) < 1);
  CHECK_THROWS_WITH_AS(check_draft(wider, model, "small", "lm"), "--draft small: it knows 14 tokens, lm knows 13",
                       Error);
}

TEST_CASE("log probabilities are those of the model's own distribution") {
  std::vector<float> logits;
  for (const double p : {0.5, 0.125, 0.25, 0.125}) logits.push_back(static_cast<float>(std::log(p) + 3));
  const LogProbabilities out = log_probabilities(logits, 3, 3);
  CHECK(out.drawn.token == 3);
  CHECK(out.drawn.value == doctest::Approx(std::log(0.125)));
  REQUIRE(out.top.size() == 3);
  CHECK(out.top[0].token == 0);
  CHECK(out.top[1].token == 2);
  CHECK(out.top[2].token == 1);  // the first of equals
  CHECK(out.top[0].value == doctest::Approx(std::log(0.5)));
  CHECK(log_probabilities(logits, 0, 0).top.empty());
  CHECK(log_probabilities(logits, 0, 100).top.size() == 4);
  // Sampling changes what is drawn, not what is said of it.
  Pool pool(1);
  const Model model(model_of("llama", 40), kernels::best_backend(), pool);
  Generator generator(model);
  TextRequest request{.prompt = {1, 2}, .count = 8, .logprobs = kVocabulary};
  request.sampling.temperature = 0;
  const Generated greedy = generator.generate(request);
  request.sampling = {.bias = {{greedy.tokens[0], 5.0}}, .temperature = 0.01};
  const Generated biased = generator.generate(request);
  REQUIRE(biased.tokens[0] == greedy.tokens[0]);
  CHECK(same_bits({biased.logprobs[0]}, {greedy.logprobs[0]}));
  for (const LogProbabilities& each : greedy.logprobs) {
    double sum = 0;
    for (const LogProbability& one : each.top) sum += std::exp(one.value);
    CHECK(sum == doctest::Approx(1));
    CHECK(each.top[0].token == each.drawn.token);
  }
}

TEST_CASE("draw: only what a mask allows, with the bits of logits that are minus infinity") {
  std::vector<float> logits{1.0f, 3.0f, 2.0f, 0.5f};
  const std::uint64_t mask = 0b1101;
  std::vector<float> masked = logits;
  masked[1] = -INFINITY;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::int32_t token = draw(logits, {}, 0, i, {}, {&mask, 1});
    CHECK(token != 1);
    CHECK(token == draw(masked, {}, 0, i));
  }
  CHECK(draw(logits, {.temperature = 0}, 0, 0, {}, {&mask, 1}) == 2);
  logits.resize(70, 9.0f);  // tokens behind the mask
  CHECK(draw(logits, {.temperature = 0}, 0, 0, {}, {&mask, 1}) == 2);
}
