// Training graphs whose products are in half precision: what is cast and how often, how far their gradients are from
// f32's, that threads change no bit, and how the loss of f16 is scaled.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "graph/op_def.h"
#include "graph/session/not_finite.h"
#include "kernels/half.h"
#include "kernels/loss_scale.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

struct Model {
  const char* name;
  Graph graph;
  double tolerance;      // of gradients; larger where a relu or a maximum near zero may change sides
  double gpu_tolerance;  // where the first convolution is rounded too, so that more of them do
};

// images[batch,12,12,2] → a convolution in f32, a residual block, one more convolution, dense to 4; batch norm behind
// each convolution.
Graph residual() {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch")), eight = Dim::of(8), three = Dim::of(3);
  const ValueId images = g.input("images", DType::kF32, {batch, Dim::of(12), Dim::of(12), Dim::of(2)});
  const auto convolved = [&](ValueId x, const std::string& which, bool relu) {
    Attrs conv;
    conv.kernel = {3, 3};
    conv.pad = {1, 1, 1, 1};
    const Dim channels = g.value(x).dims[3];
    const ValueId w = g.parameter("conv" + which + ".weight", {eight, three, three, channels});
    const std::string norm = "norm" + which;
    const ValueId gamma = g.parameter(norm + ".gamma", {eight}), beta = g.parameter(norm + ".beta", {eight});
    const ValueId mean = g.state(norm + ".mean", {eight}), variance = g.state(norm + ".variance", {eight});
    x = g.add(Op::kConv2d, conv, {x, w}, "conv" + which)[0];
    x = g.add(Op::kBatchNorm, {}, {x, gamma, beta, mean, variance}, norm)[0];
    return relu ? g.add(Op::kRelu, {}, {x}, "relu" + which)[0] : x;
  };
  const ValueId skip = convolved(images, "1", true);
  ValueId x = convolved(convolved(skip, "2", true), "3", false);
  x = g.add(Op::kAdd, {}, {x, skip}, "sum")[0];
  x = convolved(g.add(Op::kRelu, {}, {x}, "relu_sum")[0], "4", true);
  x = g.add(Op::kAvgPool, {}, {x}, "pool")[0];
  x = g.add(Op::kLinear, {}, {x, g.parameter("dense.weight", {Dim::of(4), eight})}, "logits")[0];
  g.outputs = {x};
  return g;
}

std::vector<Model> models() {
  std::vector<Model> all;
  all.push_back({"cnn", sample::cnn(0.0f), 0.08, 0.25});
  all.push_back({"residual", residual(), 0.08, 0.15});
  all.push_back({"transformer", sample::transformer(11, 16, 6, 0.0f), 0.03, 0.03});
  all.push_back({"llama", sample::llama(), 0.03, 0.03});
  return all;
}

TrainingGraph training_of(const Graph& forward, const PrecisionSpec& precision) {
  OptimizerSpec plain;
  plain.momentum = 0;
  plain.nesterov = false;
  return to_training(forward, plain, LossSpec{}, precision);
}

// Random weights, and losses that are scaled so.
Tensors started(const TrainingGraph& training, kernels::LossScale scale) {
  Tensors tensors = sample::random_tensors(training.graph);
  if (training.loss_scale == kNone) return tensors;
  Bytes& bytes = tensors.at(kLossScale).data;
  REQUIRE(bytes.size() == sizeof scale);
  std::memcpy(bytes.data(), &scale, sizeof scale);
  return tensors;
}

struct Result {
  float loss = 0;
  Tensors tensors;
  std::size_t arena = 0;
};

// One step of descent at a rate of 1, so that what the weights change by is their gradient.
Result step(const Graph& forward, const PrecisionSpec& precision, kernels::Backend backend, int threads) {
  const TrainingGraph training = training_of(forward, precision);
  validate(training.graph);
  Pool pool(threads);
  SessionOptions options;
  options.training = true;
  options.backend = backend;
  Session session(training.graph, started(training, {1024.0f, 0.0f}), options, pool);
  const bool images = training.graph.find("images") != kNone;
  const sample::Batch batch = sample::images(16, 3);
  std::vector<std::int32_t> ids;
  for (std::uint64_t i = 0; i < 8 * 6; ++i)
    ids.push_back(static_cast<std::int32_t>(kernels::random_u32(4, 1, 4, i) % 11));
  const float rate = 1.0f;
  std::vector<Feed> feeds{{training.learning_rate, &rate, {1}}};
  if (images) {
    feeds.push_back({training.graph.find("images"), batch.images.data(), {16, 12, 12, 2}});
    feeds.push_back({training.labels, batch.labels.data(), {16}});
  } else {
    feeds.push_back({training.graph.find("ids"), ids.data(), {8, 6}});
    feeds.push_back({training.labels, ids.data(), {8, 6}});
  }
  session.run(feeds);
  return {sample::floats(session.output(training.loss))[0], session.tensors(), session.arena_bytes()};
}

// Whether a node of a CPU's graph may read its input in half precision, and store a result so.
bool reads_half(const Node& node, std::size_t input) {
  return !op_def(node.op).half_if_throughout && (op_def(node.op).reads_half >> input & 1u) != 0;
}
bool stores_half(const Node& node) {
  return !op_def(node.op).half_if_throughout && op_def(node.op).stores_half;
}

// The products whose result may be bf16.
bool is_product(Op op) {
  return op == Op::kLinear || op == Op::kLinearBackwardData || op == Op::kConv2d || op == Op::kConv2dBackwardData;
}

double norm(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

// One step in two precisions from the same start: each parameter's are apart by less than `tolerance` of its way.
void check_near(const Graph& graph, const Tensors& start, const Result& f32, const Result& rounded, double tolerance) {
  for (const Value& value : graph.values) {
    if (value.role != Role::kParameter) continue;
    CAPTURE(value.name);
    const std::vector<float> before = sample::floats(start.at(value.name).data),
                             exact = sample::floats(f32.tensors.at(value.name).data),
                             own = sample::floats(rounded.tensors.at(value.name).data);
    CHECK(norm(own, exact) < tolerance * norm(before, exact));
  }
}

}  // namespace

TEST_CASE("mixed precision: products take bf16, each value is cast once, and parameters and their gradients are f32") {
  for (const Model& model : models()) {
    CAPTURE(std::string(model.name));
    const Graph graph = training_of(model.graph, {Precision::kBF16}).graph;
    std::set<ValueId> cast;
    int products = 0;
    for (const Node& node : graph.nodes) {
      CAPTURE(node.name);
      const bool first_conv = node.name.starts_with("conv1");  // of two channels
      const bool product =
          node.op == Op::kLinear || node.op == Op::kLinearBackwardData || node.op == Op::kLinearBackwardWeights ||
          (!first_conv &&
           (node.op == Op::kConv2d || node.op == Op::kConv2dBackwardData || node.op == Op::kConv2dBackwardWeights));
      const bool both = node.op == Op::kLinearBackwardWeights || node.op == Op::kConv2dBackwardWeights;
      products += product;
      if (node.op == Op::kCast) CHECK_MESSAGE(cast.insert(node.inputs[0]).second, "cast twice");
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNone) continue;
        const bool narrow = graph.value(node.inputs[i]).dtype == DType::kBF16;
        if (product) CHECK(narrow == (i == 0 || (both && i == 1)));
        if (!product) CHECK((!narrow || reads_half(node, i)));
      }
    }
    CHECK(products >= 8);
    for (const Value& value : graph.values) {
      if (value.role != Role::kActivation || value.name.ends_with(".grad")) CHECK(value.dtype != DType::kBF16);
    }
  }
}

TEST_CASE("mixed precision: what nobody needs as f32 is stored as bf16 by the operation that makes it") {
  for (const Model& model : models()) {
    CAPTURE(std::string(model.name));
    const Graph graph = training_of(model.graph, {Precision::kBF16}).graph;
    std::set<ValueId> whole(graph.outputs.begin(), graph.outputs.end());  // that somebody needs as f32
    for (const Node& node : graph.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.op != Op::kCast && !reads_half(node, i)) whole.insert(node.inputs[i]);
    }
    std::map<ValueId, const Node*> maker;
    for (const Node& node : graph.nodes)
      for (const ValueId id : node.outputs) maker[id] = &node;
    int stored = 0;
    for (const Node& node : graph.nodes) {
      CAPTURE(node.name);
      const Node* from = node.op == Op::kCast ? maker[node.inputs[0]] : nullptr;
      if (from) CHECK((whole.contains(node.inputs[0]) || !stores_half(*from)));
      const bool given_to_norm = node.op == Op::kBatchNorm && maker[node.inputs[0]]->op == Op::kConv2d &&
                                 !maker[node.inputs[0]]->name.starts_with("conv1");
      if (given_to_norm) CHECK(graph.value(node.inputs[0]).dtype == DType::kBF16);
      const bool exact = is_product(node.op) && graph.value(node.inputs[0]).dtype == DType::kF32;
      if (!stores_half(node) || exact) continue;
      const bool narrow = graph.value(node.outputs[0]).dtype == DType::kBF16;
      stored += narrow;
      CHECK((narrow || whole.contains(node.outputs[0])));
    }
    CHECK(stored >= 4);
    const Result bf16 = step(model.graph, {Precision::kBF16}, kernels::backend_named("ref"), 1);
    CHECK(bf16.arena <= step(model.graph, {Precision::kF32}, kernels::backend_named("ref"), 1).arena);
  }
}

TEST_CASE("mixed precision: in f32 the graph is what it was") {
  for (const Model& model : models()) {
    const Graph graph = training_of(model.graph, {Precision::kF32}).graph;
    for (const Node& node : graph.nodes) CHECK(node.op != Op::kCast);
  }
}

TEST_CASE("mixed precision: gradients are those of f32 to the precision of bf16, in ref and in the best kernels") {
  for (const Model& model : models()) {
    CAPTURE(std::string(model.name));
    const Result f32 = step(model.graph, {Precision::kF32}, kernels::backend_named("ref"), 1);
    const Tensors start = sample::random_tensors(training_of(model.graph, {Precision::kF32}).graph);
    for (const kernels::Backend backend : {kernels::backend_named("ref"), kernels::best_backend()}) {
      CAPTURE(std::string(backend.name()));
      const Result bf16 = step(model.graph, {Precision::kBF16}, backend, 1);
      CHECK(bf16.loss == doctest::Approx(f32.loss).epsilon(0.01));
      CHECK(bf16.loss != f32.loss);
      check_near(model.graph, start, f32, bf16, model.tolerance);
    }
  }
}

TEST_CASE("mixed precision: the same bits with any number of threads") {
  for (const Model& model : models()) {
    CAPTURE(std::string(model.name));
    const Result one = step(model.graph, {Precision::kBF16}, kernels::best_backend(), 1);
    for (const int threads : {2, 3}) {
      const Result more = step(model.graph, {Precision::kBF16}, kernels::best_backend(), threads);
      for (const auto& [name, tensor] : one.tensors) CHECK_MESSAGE(more.tensors.at(name).data == tensor.data, name);
    }
  }
}

TEST_CASE("mixed precision on a GPU: all factors are half, weights in one copy a step, attention too") {
  for (const Model& model : models()) {
    for (const PrecisionSpec& precision :
         {PrecisionSpec{Precision::kBF16, sample::gpu()}, PrecisionSpec{Precision::kF16, sample::gpu()}}) {
      CAPTURE(std::string(model.name));
      const DType half = precision.precision == Precision::kF16 ? DType::kF16 : DType::kBF16;
      const Graph graph = training_of(model.graph, precision).graph;
      std::set<ValueId> cast;
      int products = 0, weights = 0;
      for (const Node& node : graph.nodes) {
        CAPTURE(node.name);
        const auto type = [&](std::size_t i) { return graph.value(node.inputs[i]).dtype; };
        if (node.op == Op::kCast && node.attrs.output == half) {
          CHECK_MESSAGE(cast.insert(node.inputs[0]).second, "cast twice");
          weights += graph.value(node.inputs[0]).role == Role::kParameter;
        }
        if (is_product(node.op) || node.op == Op::kLinearBackwardWeights || node.op == Op::kConv2dBackwardWeights) {
          CHECK((type(0) == half && type(1) == half));
          ++products;
        }
        const bool attends = node.op == Op::kAttention || node.op == Op::kAttentionBackward;
        if (attends) CHECK((type(0) == half && graph.value(node.outputs[0]).dtype == half));
      }
      CHECK(products >= 8);
      CHECK(weights >= 2);
    }
  }
}

TEST_CASE("mixed precision on a GPU: between the loss and the last product nothing is cast or scaled; on a CPU f32") {
  for (const char* const name : {"softmax", "soft", "binary", "mse", "huber"}) {
    for (const PrecisionSpec& precision :
         {PrecisionSpec{Precision::kBF16, sample::gpu()}, PrecisionSpec{Precision::kF16, sample::gpu()},
          PrecisionSpec{Precision::kBF16}, PrecisionSpec{Precision::kF32, sample::gpu()}}) {
      CAPTURE(std::string(name));
      CAPTURE(static_cast<int>(precision.precision));
      CAPTURE(precision.can.half_throughout);
      const TrainingGraph training = to_training(sample::cnn(0.0f), {}, LossSpec{name}, precision);
      const Graph& graph = training.graph;
      const Node& loss = graph.nodes[training.loss_end - 1];
      REQUIRE(op_def(loss.op).loss);
      const bool scaled = precision.precision == Precision::kF16,
                 narrow = precision.can.half_throughout && precision.precision != Precision::kF32;
      const DType half = !narrow ? DType::kF32 : scaled ? DType::kF16 : DType::kBF16;
      const ValueId logits = loss.inputs[0], gradient = loss.outputs[1];
      CHECK(graph.value(logits).dtype == (loss.op == Op::kRegressionLoss ? DType::kF32 : half));
      CHECK(graph.value(gradient).dtype == half);
      REQUIRE(loss.inputs.size() == (scaled ? 3 : 2));
      if (scaled) CHECK(loss.inputs[2] == training.loss_scale);
      int readers = 0;
      for (const Node& node : graph.nodes) {
        if (std::ranges::find(node.outputs, logits) != node.outputs.end()) CHECK(node.op == Op::kLinear);
        if (std::ranges::find(node.inputs, gradient) == node.inputs.end()) continue;
        ++readers;
        const bool product = node.op == Op::kLinearBackwardData || node.op == Op::kLinearBackwardWeights;
        CHECK(product == (precision.can.half_throughout || precision.precision == Precision::kF32));
      }
      CHECK(readers >= 1);
    }
  }
}

// The last of the classes is so unlikely that its share of the mean over many rows is below f16's numbers.
TEST_CASE("loss scaling: gradients are scaled before they are rounded, so that small ones of many rows are not lost") {
  constexpr std::int64_t kRows = 32768;
  Graph forward;
  const Dim batch = Dim::sym(forward.symbol("batch"));
  const ValueId x = forward.input("x", DType::kF32, {batch, Dim::of(2)});
  const ValueId w = forward.parameter("w", {Dim::of(4), Dim::of(2)}), b = forward.parameter("b", {Dim::of(4)});
  forward.outputs = {forward.add(Op::kLinear, {}, {x, w, b}, "logits")[0]};
  const std::vector<float> inputs = sample::random_floats(2 * kRows, 3);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kRows; ++i) labels.push_back(static_cast<std::int32_t>(i % 3));
  const float bias[] = {0.0f, 0.25f, -0.5f, -8.0f};
  const auto gradient_of_last = [&](const PrecisionSpec& precision) {
    const TrainingGraph training = training_of(forward, precision);
    Tensors tensors = started(training, {kernels::kFirstLossScale, 0.0f});
    std::memcpy(tensors.at("b").data.data(), bias, sizeof bias);
    Pool pool(1);
    SessionOptions options;
    options.training = true;
    options.backend = kernels::backend_named("ref");
    Session session(training.graph, tensors, options, pool);
    const float rate = 1000.0f;
    session.run({{training.learning_rate, &rate, {1}},
                 {training.graph.find("x"), inputs.data(), {kRows, 2}},
                 {training.labels, labels.data(), {kRows}}});
    return (double{bias[3]} - double{sample::floats(session.tensors().at("b").data)[3]}) / double{rate};
  };
  const double exact = gradient_of_last({Precision::kF32});
  CHECK(exact / kRows < 0x1p-26);  // it would be rounded to zero
  CHECK(exact > 1e-5);
  CHECK(std::fabs(gradient_of_last({Precision::kF16, sample::gpu()}) / exact - 1.0) < 0.02);
}

TEST_CASE("mixed precision on a GPU: gradients are those of f32, whether scaled or not") {
  for (const Model& model : models()) {
    const Result f32 = step(model.graph, {Precision::kF32}, kernels::backend_named("ref"), 1);
    const Tensors start = sample::random_tensors(training_of(model.graph, {Precision::kF32}).graph);
    for (const PrecisionSpec& precision :
         {PrecisionSpec{Precision::kTF32, sample::gpu()}, PrecisionSpec{Precision::kBF16, sample::gpu()},
          PrecisionSpec{Precision::kF16, sample::gpu()}}) {
      CAPTURE(std::string(model.name));
      CAPTURE(static_cast<int>(precision.precision));
      const Result rounded = step(model.graph, precision, kernels::backend_named("ref"), 1);
      const bool coarse = precision.precision == Precision::kBF16;
      CHECK(rounded.loss == doctest::Approx(f32.loss).epsilon(coarse ? 0.01 : 0.002));
      CHECK(rounded.loss != f32.loss);
      check_near(model.graph, start, f32, rounded, model.gpu_tolerance);
    }
  }
}

TEST_CASE("loss scaling: a step whose gradients are not finite changes the scale alone, with every optimizer") {
  const auto scale_of = [](const Session& session) {
    kernels::LossScale scale;
    std::memcpy(&scale, session.state(kLossScale), sizeof scale);
    return scale;
  };
  for (const std::string& name : optimizer_names()) {
    for (const float clip : {0.0f, 0.1f}) {
      CAPTURE(name);
      CAPTURE(clip);
      OptimizerSpec spec;
      spec.name = name;
      spec.clip = clip;
      spec.weight_decay = 0.1f;
      const TrainingGraph training =
          to_training(sample::transformer(11, 16, 6, 0.0f), spec, LossSpec{}, {Precision::kF16, sample::gpu()});
      Pool pool(1);
      SessionOptions options;
      options.training = true;
      options.backend = kernels::backend_named("ref");
      const float rate = 0.01f;
      const std::vector<std::int32_t> ids(8 * 6, 3);
      const std::vector<Feed> feeds{{training.learning_rate, &rate, {1}},
                                    {training.graph.find("ids"), ids.data(), {8, 6}},
                                    {training.labels, ids.data(), {8, 6}}};
      const Tensors before = started(training, {0x1p60f, 5.0f});
      Session overflows(training.graph, before, options, pool);
      overflows.run(feeds);
      for (const auto& [which, tensor] : overflows.tensors())
        if (which != kLossScale) CHECK_MESSAGE(before.at(which).data == tensor.data, which);
      CHECK(scale_of(overflows).scale == 0x1p59f);
      CHECK(scale_of(overflows).good == 0.0f);

      Session session(training.graph, started(training, {1024.0f, kernels::kGoodSteps - 1}), options, pool);
      session.run(feeds);
      CHECK(session.tensors().at("qkv.weight").data != before.at("qkv.weight").data);
      CHECK(scale_of(session).scale == 2048.0f);
      CHECK(scale_of(session).good == 0.0f);
      // Scaled or not, it is the step of the unscaled gradients; and their norm.
      Session plain(training.graph, started(training, {1.0f, 7.0f}), options, pool);
      plain.run(feeds);
      CHECK(scale_of(plain).good == 8.0f);
      const auto moved = [&](const Session& of) { return sample::floats(of.tensors().at("qkv.weight").data); };
      const std::vector<float> still = sample::floats(before.at("qkv.weight").data);
      CHECK(norm(moved(session), moved(plain)) < 0.1 * norm(moved(plain), still));
      if (clip == 0.0f) continue;
      const float norm_of_scaled = sample::floats(session.output(training.gradient_norm))[0];
      CHECK(norm_of_scaled == doctest::Approx(sample::floats(plain.output(training.gradient_norm))[0]).epsilon(0.02));
    }
  }
}

TEST_CASE("bug: a NaN was not looked for in what is stored in half precision") {
  const std::vector<kernels::F16> halves{kernels::to_f16(65504.0f), kernels::to_f16(1e6f)};
  const auto* first = reinterpret_cast<const std::uint8_t*>(halves.data());
  CHECK(all_finite({first, 2}, DType::kF16));
  CHECK_FALSE(all_finite({first, 4}, DType::kF16));
  std::vector<kernels::BF16> numbers(5000, kernels::to_bf16(-3.0f));
  const auto bytes = [&] {
    return ByteView(reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size() * sizeof(kernels::BF16));
  };
  numbers[7] = kernels::to_bf16(3.3e38f);
  CHECK(all_finite(bytes(), DType::kBF16));
  for (const float wrong : {std::nanf(""), INFINITY, -INFINITY}) {
    numbers[4999] = kernels::to_bf16(wrong);
    CHECK_FALSE(all_finite(bytes(), DType::kBF16));
    CHECK(all_finite(bytes(), DType::kS32));
  }
}
