// Texts that are generated together have the tokens that each has alone, whatever begins, ends and is shared meanwhile.

#include <map>
#include <stdexcept>

#include "base/error.h"
#include "infer/batch_generator.h"
#include "infer/cache_blocks.h"
#include "language_model.h"

using namespace mlx;
using namespace mlx::infer;
using test::in_bf16;
using test::kVocabulary;
using test::model_of;

namespace {

// The best of our own kernels.
kernels::Backend own_kernels() {
  return kernels::portable_backend(kernels::best_backend());
}

// High enough that a changed bit of the logits soon changes a token.
Sampling hot() {
  Sampling sampling;
  sampling.temperature = 3;
  return sampling;
}

std::vector<std::int32_t> prompt_of(std::size_t length, std::int32_t first = 1) {
  std::vector<std::int32_t> prompt{first};
  while (prompt.size() < length)
    prompt.push_back((prompt.back() * 5 + 3 + static_cast<std::int32_t>(prompt.size() / 7)) % kVocabulary);
  return prompt;
}

TextRequest request_of(std::vector<std::int32_t> prompt, std::int64_t count, std::uint64_t sample) {
  TextRequest request;
  request.prompt = std::move(prompt);
  request.count = count;
  request.sampling = hot();
  request.sample = sample;
  return request;
}

std::vector<std::int32_t> alone(Generator& generator, const TextRequest& request) {
  return generator
      .generate(request.prompt, request.count, request.sampling, request.sample,
                request.stops.empty() ? std::vector<std::int32_t>() : request.stops[0], [](std::int32_t) {})
      .tokens;
}

// Begins each request as soon as there is room, and returns what came out by request.
std::vector<FinishedText> run_all(BatchGenerator& batch, const std::vector<TextRequest>& requests) {
  std::vector<FinishedText> out(requests.size());
  std::map<std::int64_t, std::size_t> request_of_id;
  std::size_t next = 0;
  while (next < requests.size() || batch.texts() > 0) {
    for (; next < requests.size() && batch.has_room(requests[next]); ++next)
      request_of_id[batch.start(requests[next])] = next;
    for (FinishedText& finished : batch.step()) {
      const std::size_t at = request_of_id.at(finished.id);
      out[at] = std::move(finished);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("batch generator: texts together have the tokens that each has alone") {
  struct Case {
    nn::Model model;
    kernels::Backend backend;
  };
  for (Case& each : std::vector<Case>{{model_of("gpt2", 300), own_kernels()},
                                      {model_of("llama", 300), own_kernels()},
                                      {in_bf16(model_of("llama", 300)), kernels::best_backend()}}) {
    CAPTURE(each.model.family);
    Pool pool(2);
    const Model model(std::move(each.model), each.backend, pool);
    REQUIRE(can_batch(model));
    Generator one(model);
    std::vector<TextRequest> requests;
    for (const std::size_t length : {1, 2, 9, 100, 127, 128, 129, 130, 256, 257, 299, 300, 400})
      requests.push_back(request_of(prompt_of(length), static_cast<std::int64_t>(1 + length % 40), requests.size()));
    for (std::size_t i = 0; i < 12; ++i) requests.push_back(request_of(prompt_of(140 + i % 3), 20, requests.size()));
    requests.push_back(request_of(prompt_of(290), 200, 1));  // fills the context more than once
    requests.push_back(request_of(prompt_of(5, 2), 0, 1));
    std::vector<std::vector<std::int32_t>> expected;
    expected.reserve(requests.size());
    for (const TextRequest& request : requests) expected.push_back(alone(one, request));
    for (const std::int64_t positions : {384, 1000, 20000}) {  // one text at a time, few, all
      CAPTURE(positions);
      BatchGenerator batch(model, positions);
      const std::vector<FinishedText> out = run_all(batch, requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        CHECK(out[i].text.tokens == expected[i]);
        CHECK(!out[i].error);
      }
      // What texts have left in the cache is used again.
      const std::int64_t before = batch.shared_positions();
      CHECK(run_all(batch, {requests[8]})[0].text.tokens == expected[8]);
      CHECK(run_all(batch, {requests[8]})[0].text.tokens == expected[8]);
      CHECK(batch.shared_positions() >= before + 128);
    }
  }
}

TEST_CASE("batch generator: a text that begins as another one copies what is not a full block") {
  Pool pool(1);
  const Model model(model_of("llama", 64), own_kernels(), pool);
  BatchGenerator batch(model, 640);
  std::vector<TextRequest> requests;
  for (std::uint64_t i = 0; i < 3; ++i) requests.push_back(request_of(prompt_of(50), 9, i));
  const std::vector<FinishedText> out = run_all(batch, requests);
  CHECK(batch.shared_positions() == 2 * 49);
  Generator one(model);
  for (std::size_t i = 0; i < 3; ++i) CHECK(out[i].text.tokens == alone(one, requests[i]));
}

// bug: one text began with each pass, though the others' prompt was computed already.
TEST_CASE("batch generator: texts of one prompt begin together") {
  Pool pool(1);
  const Model model(model_of("llama", 64), own_kernels(), pool);
  constexpr std::int64_t kTexts = 8, kTokens = 5;
  BatchGenerator batch(model, 4096);
  for (std::int64_t i = 0; i < kTexts; ++i)
    (void)batch.start(request_of(prompt_of(20), kTokens, static_cast<std::uint64_t>(i)));
  std::int64_t steps = 0;
  for (; batch.texts() > 0; ++steps) (void)batch.step();
  CHECK(steps <= kTokens + 2);
}

TEST_CASE("batch generator: texts end at their stop, when cancelled, and when somebody who gets tokens fails") {
  Pool pool(2);
  const Model model(model_of("llama", 64), own_kernels(), pool);
  BatchGenerator batch(model, 6400);
  Generator one(model);
  TextRequest whole = request_of(prompt_of(7), 30, 1), stopping = whole, failing = whole, invalid = whole;
  const std::vector<std::int32_t> all = alone(one, whole);
  stopping.stops = {{all[9], all[10]}};
  failing.emit = [count = 0](const Drawn&) mutable {
    if (++count == 4) throw std::runtime_error("gone");
  };
  invalid.sampling.top_p = -1;
  const std::int64_t cancelled = batch.start(whole);
  (void)batch.step();
  batch.cancel(cancelled);
  batch.cancel(cancelled);
  const std::vector<FinishedText> out = run_all(batch, {stopping, whole, failing, invalid});
  CHECK(out[0].text.stopped);
  CHECK(out[0].text.tokens == alone(one, stopping));
  CHECK(out[1].text.tokens == all);
  CHECK_THROWS_WITH(std::rethrow_exception(out[2].error), "gone");
  CHECK_THROWS_AS(std::rethrow_exception(out[3].error), Error);
  CHECK(batch.texts() == 0);
  CHECK(batch.has_room(request_of(prompt_of(7), 30, 1)));
}

TEST_CASE("batch generator: only models whose rows are independent") {
  Pool pool(1);
  nn::Model image;
  image.graph = nn::built("family = \"mlp\"\nhidden = [3]\n").graph;
  image.weights = std::make_shared<const graph::Weights>(nn::initialize(image.graph, "mlp", 1));
  const Model no_language(image, own_kernels(), pool);
  CHECK_FALSE(can_batch(no_language));
  CHECK_THROWS_AS(BatchGenerator(no_language, 128), Error);
  const Model best(model_of("llama", 64), kernels::best_backend(), pool);
  CHECK(can_batch(best) == best.backend().can().independent_rows);
  CHECK(can_batch(Model(in_bf16(model_of("gpt2", 64)), kernels::best_backend(), pool)));
}

TEST_CASE("cache blocks: known by content, kept until their place is needed") {
  CacheBlocks blocks(3);
  const std::vector<std::int32_t> tokens(128, 7);
  const Digest first = CacheBlocks::content({}, tokens), second = CacheBlocks::content(first, tokens);
  CHECK(first != second);
  const std::int32_t a = blocks.take(), b = blocks.take();
  blocks.hold(a, first), blocks.hold(b, second);
  CHECK(blocks.use(first) == a);  // two users
  blocks.release(a), blocks.release(a), blocks.release(b);
  CHECK(blocks.free() == 3);
  CHECK(blocks.use(second) == b);
  const std::int32_t c = blocks.take();  // the one that never held anything
  CHECK(c != a);
  CHECK(blocks.use(first) == a);
  blocks.release(a);
  CHECK(blocks.take() == a);  // nothing else is free
  CHECK(blocks.use(first) == std::nullopt);
  CHECK(blocks.free() == 0);
}
