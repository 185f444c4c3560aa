// Vectors of texts: what a language model's final layer reads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "infer/embedding.h"
#include "language_model.h"
#include "nn/encoder_graph.h"

namespace mlx::infer {
namespace {

std::vector<float> embedded(const nn::Model& model, const Tokens& tokens, Pooling pooling, bool unit) {
  Pool pool(1);
  const Model headless(without_head(model), kernels::best_backend(), pool);
  Embedder embedder(headless, {pooling, unit}, [] {});
  CHECK(embedder.width() == 32);
  return embedder.embed({&tokens, 1}).at(0);
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

// An encoder with sines for weights.
nn::Model small_encoder() {
  nn::EncoderConfig config;
  config.architecture = "BertModel";
  config.vocabulary = 40, config.positions = config.context = 60, config.segments = 2;
  config.width = 32, config.heads = 4, config.hidden = 64, config.layers = 2, config.epsilon = 1e-12f;
  nn::Model model;
  model.family = "imported";
  model.config = R"({"architecture":"BertModel","context":60,"family":"imported","pooling":"max"})";
  model.graph = nn::build_encoder(config, "").graph;
  graph::Tensors tensors;
  for (const graph::Value& value : model.graph.values) {
    if (value.role != graph::Role::kParameter) continue;
    graph::Tensor& tensor = tensors[value.name];
    tensor.shape = graph::concrete(value, {1, 1});
    tensor.data.resize(tensor.shape.bytes());
    for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
      reinterpret_cast<float*>(tensor.data.data())[i] = (value.name.ends_with("gamma") ? 1.0f : 0.0f) +
                                                        0.4f * std::sin(0.7f * static_cast<float>(i + tensors.size()));
  }
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  return model;
}

TEST_CASE("infer: an encoder's states have the same bits alone and among texts of all lengths, with all kernels") {
  const nn::Model encoder = small_encoder();
  CHECK(pooling_of(encoder).pooling == Pooling::kMax);
  std::vector<Tokens> texts;
  for (std::size_t i = 0; i < 40; ++i) {
    Tokens tokens(1 + 7 * i % 60);
    for (std::size_t k = 0; k < tokens.size(); ++k) tokens[k] = static_cast<std::int32_t>((3 * i + k * k) % 40);
    texts.push_back(std::move(tokens));
  }
  for (const std::string_view name : kernels::cpu_backend_names()) {
    const kernels::Backend backend = kernels::backend_named(name);
    Pool pool(2);
    const Model model(encoder, backend, pool);
    std::vector<std::vector<float>> together(texts.size());
    Encoder many(model);
    many.encode(
        texts, [&](std::size_t i, std::span<const float> states) { together[i].assign(states.begin(), states.end()); });
    for (std::size_t i = 0; i < texts.size(); i += 3) {
      Encoder one(model);
      one.encode({&texts[i], 1}, [&](std::size_t, std::span<const float> states) {
        CHECK(std::ranges::equal(states, together[i]));
        CHECK(states.size() == texts[i].size() * 32);
      });
    }
  }
  Pool pool(1);
  const Model model(encoder, kernels::best_backend(), pool);
  CHECK_THROWS_WITH(Generator{model}, doctest::Contains("an encoder gives vectors"));
  const std::vector<Tokens> long_text{Tokens(61)};
  CHECK_THROWS_WITH(Encoder(model).encode(long_text, {}), doctest::Contains("61 tokens: expected 1 to 60"));
}

}  // namespace
}  // namespace mlx::infer
