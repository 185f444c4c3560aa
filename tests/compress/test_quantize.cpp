// int8: a child version that is a quarter of the size and nearly as good.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "../train/synthetic.h"
#include "base/error.h"
#include "base/json.h"
#include "compress/quantize.h"
#include "compress/quantized_graph.h"
#include "data/kinds/text_dataset.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "infer/generate.h"
#include "infer/session.h"
#include "nn/family.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/references.h"
#include "train/evaluate/evaluate.h"
#include "train/trainer.h"

namespace mlx {
namespace {

TEST_CASE("a quantized model is a child version, nearly as accurate, with all layers in eight bits") {
  TempFolder folder;
  Pool pool(2);
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  synthetic::make_repository(folder.path(), *disk, pool);
  write_file_atomically(join_path(folder.path(), "train.toml"), std::string_view(synthetic::kConfig));
  registry::Repository repository = registry::open_repository(folder.path(), *disk, pool);
  NoProgress silent;
  train::TrainOptions options;
  options.backend = kernels::best_backend();
  train::train(repository, train::read_train_config(join_path(folder.path(), "train.toml")), options, silent);

  compress::QuantizeOptions quantize;
  quantize.model = "clf";
  quantize.dataset = "data/bars";
  quantize.split = "train";
  quantize.backend = options.backend;
  const compress::QuantizeOutcome outcome = compress::quantize_version(repository, quantize, silent);
  CHECK(outcome.to.name() == "clf@v2");
  CHECK(outcome.to.parent == outcome.from.digest);
  CHECK(compress::quantize_version(repository, quantize, silent).unchanged);

  // bug: the key of a quantization held the sources of training alone, so that another quantizer answered `unchanged`.
  const auto sources = [](const registry::Run& run) {
    return parse_json(run.environment, "environment").at("sources");
  };
  const std::vector<registry::Run> runs = registry::runs(repository);
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].command == "quantize");
  CHECK(sources(runs[1]) != sources(runs[0]));

  const auto evaluate = [&](const char* model, kernels::Backend backend) {
    const nn::Model loaded = nn::load_model(repository.store(), registry::resolve(repository, model).digest);
    const data::DatasetPtr test =
        data::load(repository.store(), registry::resolve(repository, "data/bars").digest, "test", {}, silent);
    return train::evaluate(loaded, *test, backend, pool, silent);
  };
  const train::Evaluation f32 = evaluate("clf@v1", options.backend), int8 = evaluate("clf@v2", options.backend);
  CHECK(int8.accuracy() >= f32.accuracy() - 0.03);
  CHECK(int8.loss == doctest::Approx(f32.loss).epsilon(0.2));
  // The oracle's integer arithmetic says the same of nearly every example.
  CHECK(std::abs(evaluate("clf@v2", kernels::backend_named("ref")).correct - int8.correct) <= 1);

  const nn::Model model = nn::load_model(repository.store(), outcome.to.digest);
  CHECK(model.precision == "int8");
  int layers = 0;
  for (const graph::Node& node : model.graph.nodes) {
    if (node.op != graph::Op::kConv2d && node.op != graph::Op::kLinear) continue;
    ++layers;
    CHECK(model.graph.value(node.inputs[1]).dtype == graph::DType::kS8);
  }
  CHECK(layers == 4);
  const infer::Model ready(model, options.backend, pool);
  CHECK_THROWS_AS(compress::quantize_int8(ready, {}), Error);
}

// Residual sums stay in f32 between layers of eight bits; depthwise convolutions are layers as others.
void check_family(const std::string& family) {
  CAPTURE(family);
  TempFolder folder;
  Pool pool(2);
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  synthetic::make_repository(folder.path(), *disk, pool);
  const std::string file = join_path(folder.path(), "train.toml");
  write_file_atomically(file, "[data]\ndataset = \"data/bars\"\n[model]\nname = \"clf\"\n" + family +
                                  "[train]\nepochs = 3\nbatch = 30\nseed = 5\n");
  registry::Repository repository = registry::open_repository(folder.path(), *disk, pool);
  NoProgress silent;
  train::TrainOptions options;
  options.backend = kernels::best_backend();
  train::train(repository, train::read_train_config(file), options, silent);
  compress::QuantizeOptions quantize;
  quantize.model = "clf";
  quantize.dataset = "data/bars";
  quantize.split = "train";
  quantize.backend = options.backend;
  const compress::QuantizeOutcome outcome = compress::quantize_version(repository, quantize, silent);

  const data::DatasetPtr test =
      data::load(repository.store(), registry::resolve(repository, "data/bars").digest, "test", {}, silent);
  const nn::Model f32 = nn::load_model(repository.store(), outcome.from.digest),
                  int8 = nn::load_model(repository.store(), outcome.to.digest);
  const double before = train::evaluate(f32, *test, options.backend, pool, silent).accuracy();
  CHECK(before > 0.7);
  CHECK(train::evaluate(int8, *test, options.backend, pool, silent).accuracy() >= before - 0.05);
  int sums = 0;
  for (const graph::Node& node : int8.graph.nodes) {
    sums += node.op == graph::Op::kAdd;
    if (node.op == graph::Op::kConv2d) CHECK(int8.graph.value(node.inputs[1]).dtype == graph::DType::kS8);
    CHECK(node.op != graph::Op::kBatchNormInference);
  }
  CHECK(sums > 0);
}

// bug: values of the quantized graph were named after nodes, so that the outputs of the model changed their names.
TEST_CASE("a graph from outside quantizes: bytes pass what keeps their scale, and names stay") {
  using namespace graph;
  Graph g;
  const ValueId x = g.input("features", DType::kF32, {Dim::sym(g.symbol("n")), Dim::of(24)});
  const Dim batch = g.value(x).dims[0];
  const auto layer = [&](ValueId from, std::int64_t in, std::int64_t out, const char* name) {
    return g.add(Op::kLinear, {}, {from, g.parameter(name, {Dim::of(out), Dim::of(in)})},
                 std::string(name) + "_out")[0];
  };
  ValueId y = layer(x, 24, 32, "first");
  y = g.add(Op::kRelu, {}, {y}, "act")[0];
  y = g.add_shaped(Op::kReshape, {}, {y}, {batch, Dim::of(4), Dim::of(8)}, "square")[0];
  Attrs turn, cut;
  turn.axes = kernels::int_list({0, 2, 1});
  y = g.add(Op::kTranspose, turn, {y}, "turned")[0];
  cut.axes = kernels::int_list({1}), cut.starts = kernels::int_list({1}), cut.ends = kernels::int_list({7});
  y = g.add(Op::kSlice, cut, {y}, "cut")[0];
  g.outputs = {layer(y, 4, 3, "second")};
  for (Node& node : g.nodes) {
    if (node.op == Op::kLinear) node.name = g.value(node.inputs[1]).name;
  }
  Tensors tensors, ranges;
  for (const Value& value : g.values) {
    if (value.role != Role::kParameter) continue;
    Tensor& tensor = tensors[value.name];
    tensor.shape = concrete(value, {});
    tensor.data.resize(tensor.shape.bytes());
    for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
      reinterpret_cast<float*>(tensor.data.data())[i] = 0.1f * static_cast<float>((i * 7 + 3) % 11 - 5);
  }
  const Graph fused = fuse(g, tensors);
  const auto range = [&](ValueId id, float most) {
    Tensor& tensor = ranges[fused.value(id).name];
    tensor.shape.rank = 1, tensor.shape.dims[0] = 1;
    tensor.data.resize(sizeof most);
    std::memcpy(tensor.data.data(), &most, sizeof most);
  };
  for (const ValueId id : compress::values_to_quantize(fused)) range(id, id == fused.inputs[0] ? 1.0f : 6.0f);
  const compress::Quantized made = compress::quantize_graph(fused, tensors, ranges);
  std::vector<Op> ops;
  for (const Node& node : made.graph.nodes) ops.push_back(node.op);
  CHECK(ops == std::vector{Op::kQuantize, Op::kLinear, Op::kReshape, Op::kTranspose, Op::kSlice, Op::kLinear});
  CHECK(made.graph.value(made.graph.nodes[4].outputs[0]).dtype == DType::kU8);
  CHECK(made.graph.value(made.graph.outputs[0]).name == "second_out");

  constexpr std::int64_t kRows = 3;
  std::vector<float> features(kRows * 24);
  for (std::size_t i = 0; i < features.size(); ++i) features[i] = 0.04f * static_cast<float>((i * 5) % 47) - 0.9f;
  const auto answer = [&](const Graph& of, const Tensors& held) {
    Pool pool(1);
    SessionOptions options;
    options.backend = kernels::best_backend();
    Session session(of, held, options, pool);
    session.run({{of.inputs[0], features.data(), {kRows, 24}}});
    const ByteView bytes = session.output(of.outputs[0]);
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  };
  const std::vector<float> f32 = answer(fused, tensors), int8 = answer(made.graph, made.tensors);
  REQUIRE(f32.size() == int8.size());
  for (std::size_t i = 0; i < f32.size(); ++i) CHECK(int8[i] == doctest::Approx(f32[i]).epsilon(0.05).scale(2));
}

TEST_CASE("residual networks quantize with all layers in eight bits") {
  check_family("family = \"resnet\"\ndepth = 20\nwidth = 0.25\n");
}

TEST_CASE("MobileNetV2 quantizes with all layers in eight bits") {
  check_family("family = \"mobilenet_v2\"\nwidth = 0.25\nhalvings = 2\ndropout = 0.0\n");
}

nn::Model language_model(const std::string& family, std::int64_t vocabulary, const std::string& more) {
  const TomlNode root = parse_toml(
      "[model]\nfamily = \"" + family + "\"\nlayers = 2\nwidth = 32\nheads = 4\ncontext = 16\n" + more, "t.toml");
  TomlReader top(root, "t.toml", "");
  const nn::Built made = nn::build(top.table("model"), nn::InputSpec::tokens(vocabulary));
  nn::Model model;
  model.family = made.family;
  model.config = made.config;
  model.graph = made.graph;
  graph::Tensors tensors = nn::initialize(made.graph, made.family, 4);
  for (auto& [name, tensor] : tensors) {  // so large that what is likely differs from prompt to prompt
    auto* data = reinterpret_cast<float*>(tensor.data.data());
    if (!name.ends_with("gamma"))
      for (std::int64_t i = 0; i < tensor.shape.count(); ++i) data[i] *= 5;
  }
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  return model;
}

std::vector<float> logits_of(infer::Session& session, std::span<const std::int32_t> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  session.run({{session.model().graph().inputs[0], tokens.data(), {1, count}}});
  const ByteView bytes = session.value(session.model().graph().outputs[0]);
  const auto* values = reinterpret_cast<const float*>(bytes.data());
  return {values, values + bytes.size() / sizeof(float)};
}

// Layers in eight bits; a head that shares the embedding's weights is none of them.
void check_language_model(const std::string& family, const std::string& more, int layers) {
  CAPTURE(family);
  constexpr std::int64_t kVocabulary = 13;
  Pool pool(2);
  NoProgress silent;
  nn::Model made = language_model(family, kVocabulary, more);
  const auto tokenizer = std::make_shared<data::Tokenizer>(data::Tokenizer::chars("abcdefghijklm", "text"));
  made.preprocessing.tokenizer = tokenizer;
  const infer::Model f32(made, kernels::best_backend(), pool);
  std::vector<std::int32_t> tokens;
  for (std::uint32_t i = 0; i < 600; ++i) tokens.push_back(static_cast<std::int32_t>(i * i * 7 % 31 % kVocabulary));
  const data::DatasetPtr dataset = data::make_dataset(data::text_of(tokens, tokenizer));
  const nn::Model quantized = compress::quantize_int8(f32, compress::calibrate(f32, *dataset, {}, silent));
  int found = 0;
  for (const graph::Node& node : quantized.graph.nodes)
    found += node.op == graph::Op::kLinear && quantized.graph.value(node.inputs[1]).dtype == graph::DType::kS8;
  CHECK(found == layers);

  const infer::Model int8(quantized, kernels::best_backend(), pool),
      oracle(quantized, kernels::backend_named("ref"), pool);
  infer::Session before(f32), after(int8), exact(oracle);
  const std::span<const std::int32_t> window = std::span(tokens).first(16);
  const std::vector<float> a = logits_of(before, window), b = logits_of(after, window), c = logits_of(exact, window);
  double error = 0, size = 0, off = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    off += (c[i] - b[i]) * (c[i] - b[i]);
    size += a[i] * a[i];
  }
  CHECK(error < 0.01 * size);
  CHECK(off < 0.001 * size);

  // With a cache the quantized graph says what it says of whole sequences.
  infer::Generator generator(int8);
  std::vector<std::int32_t> all{3, 1, 4};
  infer::Sampling greedy;
  greedy.temperature = 0;
  for (const std::int32_t token : generator.generate(all, 12, greedy, 0, {}, [](std::int32_t) {}).tokens) {
    const std::vector<float> logits = logits_of(after, all);
    const auto last = std::span(logits).last(static_cast<std::size_t>(kVocabulary));
    CHECK(token == std::ranges::max_element(last) - last.begin());
    all.push_back(token);
  }
}

TEST_CASE("bug: language models were refused; their layers quantize, and they decode with a cache") {
  check_language_model("gpt2", "", 8);
  check_language_model("llama", "kv_heads = 2\n", 9);
  check_language_model("llama", "tie = true\n", 8);
}

}  // namespace
}  // namespace mlx
