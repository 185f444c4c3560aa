// Vectors of texts: what a language model's final layer reads.
#include <doctest/doctest.h>

#include <cmath>

#include "infer/embedding.h"
#include "language_model.h"

namespace mlx::infer {
namespace {

std::vector<float> embedded(const nn::Model& model, const Tokens& tokens, Pooling pooling, bool unit) {
  Pool pool(1);
  const Model headless(without_head(model), kernels::best_backend(), pool);
  Embedder embedder(headless, {pooling, unit}, [] {});
  CHECK(embedder.width() == 32);
  return embedder.embed({&tokens, 1})[0];
}

TEST_CASE("infer: the final layer makes the logits of the vector of the last token") {
  const nn::Model model = test::model_of("llama");
  const Tokens tokens{1, 5, 2, 9, 12};
  const std::vector<float> vector = embedded(model, tokens, Pooling::kLast, false);
  Pool pool(1);
  const Model whole(model, kernels::best_backend(), pool);
  std::vector<float> logits;
  Generator(whole).logits(
      tokens, [&](std::span<const float> rows) { logits.assign(rows.end() - test::kVocabulary, rows.end()); });
  const auto* const head = reinterpret_cast<const float*>(model.weights->find("head.weight")->data().data());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < vector.size(); ++k) sum += double{vector[k]} * double{head[i * vector.size() + k]};
    CHECK(logits[i] == doctest::Approx(sum).epsilon(1e-4));
  }
}

TEST_CASE("infer: a mean is that of the vectors of all tokens, and a unit vector has the length 1") {
  const nn::Model model = test::model_of("gpt2");
  const Tokens tokens{3, 1, 4};
  std::vector<double> mean(32);
  for (std::size_t count = 1; count <= tokens.size(); ++count) {
    const std::vector<float> one = embedded(
        model, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)), Pooling::kLast, false);
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += double{one[k]} / 3;
  }
  const std::vector<float> pooled = embedded(model, tokens, Pooling::kMean, false),
                           unit = embedded(model, tokens, Pooling::kMean, true);
  double squares = 0;
  for (std::size_t k = 0; k < mean.size(); ++k) {
    CHECK(pooled[k] == doctest::Approx(mean[k]).epsilon(1e-4));
    squares += double{unit[k]} * double{unit[k]};
  }
  CHECK(squares == doctest::Approx(1));
}

}  // namespace
}  // namespace mlx::infer
