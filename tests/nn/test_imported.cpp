// Models whose graph is given: one that no family builds is trained, stored, loaded and asked as others are.
#include "nn/imported.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "base/path.h"
#include "built.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "kernels/philox.h"
#include "nn/finetune.h"
#include "nn/model.h"

using namespace mlx;
using namespace mlx::nn;
using graph::Attrs;
using graph::Dim;
using graph::Graph;
using graph::Op;
using graph::ValueId;
using kernels::DType;

namespace {

constexpr std::int64_t kPixels = 12, kClasses = 3, kBatch = 32;

// images[batch,3,4,1]: rows are mixed, averaged and scaled by operations that no family uses.
Graph outside() {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  ValueId x = g.input("images", DType::kF32, {batch, Dim::of(3), Dim::of(4), Dim::of(1)});
  x = g.add_shaped(Op::kReshape, {}, {x}, {batch, Dim::of(3), Dim::of(4)}, "rows")[0];
  Attrs turn;
  turn.axes = kernels::int_list({0, 2, 1});
  x = g.add(Op::kTranspose, turn, {x}, "turned")[0];
  x = g.add(Op::kMatmul, {}, {x, g.parameter("mix", {Dim::of(3), Dim::of(8)})}, "mixed")[0];  // [batch,4,8]
  x = g.add(Op::kGelu, {}, {x}, "gelu")[0];
  Attrs mean;
  mean.axes = kernels::int_list({1}), mean.reduction = kernels::Reduction::kMean;
  x = g.add(Op::kReduce, mean, {x}, "mean")[0];
  Attrs times;
  times.arithmetic = kernels::Arithmetic::kMul;
  x = g.add(Op::kArithmetic, times, {x, g.parameter("scale", {Dim::of(8)})}, "scaled")[0];
  const ValueId head = g.parameter("head.weight", {Dim::of(kClasses), Dim::of(8)});
  g.outputs = {g.add(Op::kLinear, {}, {x, head}, "logits")[0]};
  return g;
}

graph::Tensors weights_of(const Graph& g) {
  graph::Tensors tensors;
  for (const graph::Value& value : g.values) {
    if (value.role != graph::Role::kParameter) continue;
    graph::Tensor& tensor = tensors[value.name];
    tensor.shape = graph::concrete(value, {});
    tensor.data.resize(tensor.shape.bytes());
    auto* numbers = reinterpret_cast<float*>(tensor.data.data());
    for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
      numbers[i] = kernels::to_unit(kernels::random_u32(1, tensors.size(), 0, static_cast<std::uint64_t>(i))) - 0.5f;
  }
  return tensors;
}

// The class is the brightest row.
struct Data {
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};
Data bright_rows() {
  Data made;
  for (std::uint64_t i = 0; i < kBatch; ++i) {
    const auto label = static_cast<std::int32_t>(i % kClasses);
    made.labels.push_back(label);
    for (std::uint64_t k = 0; k < kPixels; ++k) {
      const float noise = kernels::to_unit(kernels::random_u32(3, i, 0, k));
      made.pixels.push_back(noise + (static_cast<std::int32_t>(k / 4) == label ? 1.0f : 0.0f));
    }
  }
  return made;
}

std::vector<float> answers(const Model& model, const Data& asked) {
  Pool pool(1);
  graph::SessionOptions options;
  const Graph inference = graph::to_inference(model.graph);
  graph::Session session(inference, model.weights, options, pool);
  session.run({{inference.inputs[0], asked.pixels.data(), {kBatch, 3, 4, 1}}});
  const ByteView out = session.output(inference.outputs[0]);
  std::vector<float> logits(static_cast<std::size_t>(kBatch * kClasses));
  std::memcpy(logits.data(), out.data(), out.size());
  return logits;
}

}  // namespace

TEST_CASE("imported: a graph from outside trains, is stored, loads and predicts") {
  const Built built = built_from(outside(), InputSpec::images(3, 4, 1, kClasses));
  CHECK(built.family == "imported");
  Model model;
  model.family = built.family, model.config = built.config, model.graph = built.graph;
  graph::Tensors tensors = weights_of(model.graph);
  model.preprocessing = {3, 4, 1, {{0.5f}, {0.5f}}};
  model.labels = {"top", "middle", "bottom"};

  const graph::TrainingGraph training = graph::to_training(model.graph, {}, 0.0f);
  Pool pool(1);
  graph::SessionOptions options;
  options.training = true;
  graph::Session session(training.graph, tensors, options, pool);
  const Data taught = bright_rows();
  const float rate = 0.2f;
  const auto step = [&] {
    session.run({{training.graph.find("images"), taught.pixels.data(), {kBatch, 3, 4, 1}},
                 {training.labels, taught.labels.data(), {kBatch}},
                 {training.learning_rate, &rate, {1}}});
    float loss = 0;
    std::memcpy(&loss, session.output(training.loss).data(), sizeof loss);
    return loss;
  };
  const float before = step();
  for (int i = 0; i < 300; ++i) step();
  CHECK(step() < 0.5f * before);
  for (auto& [name, tensor] : tensors) std::memcpy(tensor.data.data(), session.state(name), tensor.data.size());
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));

  TempFolder folder;
  const auto disk = store::real_disk();
  store::Store::create(folder.path() + "/.mlx", *disk);
  store::Store store(folder.path() + "/.mlx", *disk, pool);
  const Model loaded = load_model(store, store_model(store, model).id);
  CHECK(loaded.family == "imported");
  const std::vector<float> logits = answers(loaded, taught);
  CHECK(logits == answers(model, taught));
  int right = 0;
  for (std::size_t i = 0; i < kBatch; ++i) {
    const auto* const row = logits.data() + i * kClasses;
    right += std::max_element(row, row + kClasses) - row == taught.labels[i] ? 1 : 0;
  }
  CHECK(right >= kBatch * 9 / 10);
}

TEST_CASE("imported: a graph that does not fit the data is refused with what would fit") {
  const auto refusal = [](const InputSpec& input) {
    return complaint([&] { built_from(outside(), input); }, ErrorKind::kUsage);
  };
  CHECK(says(refusal(InputSpec::images(8, 8, 1, 3)),
             "takes 'images' f32[batch,3,4,1], the dataset gives 'images' f32[batch,8,8,1]"));
  CHECK(says(refusal(InputSpec::images(3, 4, 1, 4)), "gives 'logits' f32[batch,3], the dataset wants f32[batch,4]"));
  CHECK(says(refusal(InputSpec::rows(12, kClasses)), "gives 'features' f32[batch,12]"));
  CHECK(says(refusal(InputSpec::tokens(5)), "the dataset gives 'ids' s32[batch,sequence]"));
  CHECK(says(complaint([] { built("family = \"imported\"", InputSpec::rows(2, 2)); }, ErrorKind::kUsage),
             "needs a model to start from"));
}

TEST_CASE("imported: a graph over tokens has the context given by the model or the config") {
  const Graph language = build_gpt2({7, 16, 8, 2, 1});
  const Built model = built_from(language, InputSpec::tokens(7), 16);
  CHECK(model.context == 16);
  CHECK(model.config == "{\"context\":16,\"family\":\"imported\"}");
  CHECK(says(complaint([&] { built_from(language, InputSpec::tokens(8), 16); }, ErrorKind::kUsage),
             "gives 'logits' f32[batch,sequence,7], the dataset wants f32[batch,sequence,8]"));
  const TomlNode root = parse_toml("[model]\nfamily = \"imported\"\ncontext = 8", "t.toml");
  TomlReader top(root, "t.toml", "");
  CHECK(build(top.table("model"), InputSpec::tokens(7), &language).context == 8);
  CHECK(takes("imported", InputKind::kTokens));
  CHECK(takes("imported", InputKind::kImages));  // the data says what it is
}

TEST_CASE("imported: an outside graph gets core operations where possible") {
  Model model;
  model.family = "imported", model.config = "{}", model.graph = outside();
  model.weights = std::make_shared<const graph::Weights>(weights_of(model.graph));
  model.preprocessing = {3, 4, 1, {{0.5f}, {0.5f}}};
  const Data asked = bright_rows();
  const std::vector<float> before = answers(model, asked);
  const Model raised = imported(model);
  CHECK(std::ranges::none_of(raised.graph.nodes, [](const graph::Node& node) { return node.op == Op::kMatmul; }));
  const std::vector<float> after = answers(raised, asked);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] == doctest::Approx(before[i]).epsilon(1e-4));

  model.precision = "int8";
  CHECK(says(complaint([&] { imported(model); }, ErrorKind::kUsage), "it is int8, expected f32"));
  model.precision = "f32", model.preprocessing = {};
  CHECK(says(complaint([&] { imported(model); }, ErrorKind::kUsage), "neither images nor rows nor text"));
}

// bug: with other classes only the bias behind the last product started anew, as zeros, and not its weights.
TEST_CASE("imported: with other classes the last product and everything after it are fresh") {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  ValueId x = g.input("features", DType::kF32, {batch, Dim::of(4)});
  Attrs add, times;
  add.arithmetic = kernels::Arithmetic::kAdd, times.arithmetic = kernels::Arithmetic::kMul;
  x = g.add(Op::kMatmul, {}, {x, g.parameter("body", {Dim::of(4), Dim::of(64)})}, "hidden")[0];
  x = g.add(Op::kMatmul, {}, {x, g.parameter("head", {Dim::of(1), Dim::of(64), Dim::of(16)})}, "product")[0];
  x = g.add_shaped(Op::kReshape, {}, {x}, {batch, Dim::of(16)}, "flat")[0];
  x = g.add(Op::kArithmetic, times, {x, g.parameter("scale", {Dim::of(16)})}, "scaled")[0];
  g.outputs = {g.add(Op::kArithmetic, add, {x, g.parameter("bias", {Dim::of(16)})}, "logits")[0]};
  Model base;
  base.family = "imported", base.config = "{}", base.graph = g, base.labels = {"a"};
  base.weights = std::make_shared<const graph::Weights>(weights_of(g));
  const Built again = built_from(g, InputSpec::rows(4, 16));
  const FinetuneStart start = start_from(again, {"b"}, base, 1);
  CHECK(start.fresh == std::vector<std::string>{"bias", "head", "scale"});
  CHECK(start.tensors.at("body").data == base.weights->tensor("body").data);
  const auto numbers = [&](const char* name) {
    const Bytes& data = start.tensors.at(name).data;
    std::vector<float> list(data.size() / sizeof(float));
    std::memcpy(list.data(), data.data(), data.size());
    return list;
  };
  CHECK(numbers("scale") == std::vector<float>(16, 1.0f));
  CHECK(numbers("bias") == std::vector<float>(16, 0.0f));
  double squares = 0;
  for (const float w : numbers("head")) squares += static_cast<double>(w) * w;
  CHECK(squares / (64 * 16) == doctest::Approx(2.0 / (64 + 16)).epsilon(0.1));  // Xavier, of 64 terms
}

TEST_CASE("imported: a training that starts from an imported model has its graph") {
  const Graph given = outside();
  const TomlNode root = parse_toml("[model]\nfamily = \"imported\"\ninit = \"net\"", "t.toml");
  TomlReader top(root, "t.toml", "");
  const Built again = build(top.table("model"), InputSpec::images(3, 4, 1, kClasses), &given);
  CHECK(again.graph.nodes.size() == given.nodes.size());
  CHECK(again.config == "{\"family\":\"imported\"}");
}
