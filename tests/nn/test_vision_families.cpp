// Residual networks and MobileNetV2: the sizes that their authors and torchvision give, what passes make of them, and
// what is said of images that are too small.

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "built.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "kernels/philox.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

const InputSpec kImageNet = InputSpec::images(224, 224, 3, 1000), kCifar = InputSpec::images(32, 32, 3, 10);

std::int64_t parameters(const graph::Graph& graph) {
  std::int64_t count = 0;
  for (const graph::Value& value : graph.values)
    if (value.role == graph::Role::kParameter) count += graph::concrete(value, {1}).count();
  return count;
}

int count_of(const graph::Graph& graph, graph::Op op) {
  int count = 0;
  for (const graph::Node& node : graph.nodes) count += node.op == op;
  return count;
}

std::string wrong(const std::string& text, const InputSpec& input = kCifar) {
  return complaint([&] { (void)built(text, input); }, ErrorKind::kUsage);
}

std::vector<float> logits(const graph::Graph& graph, const graph::Tensors& tensors, const std::vector<float>& images,
                          const std::vector<std::int64_t>& dims) {
  Pool pool(2);
  graph::SessionOptions options;
  options.backend = kernels::best_backend();
  graph::Session session(graph, tensors, options, pool);
  session.run({{graph.inputs[0], images.data(), dims}});
  const ByteView bytes = session.output(graph.outputs[0]);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

TEST_CASE("resnet and mobilenet_v2 have the parameters of torchvision's for a thousand classes") {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"family = \"resnet\"\ndepth = 18\n", 11689512},       {"family = \"resnet\"\ndepth = 34\n", 21797672},
      {"family = \"resnet\"\ndepth = 50\n", 25557032},       {"family = \"resnet\"\ndepth = 101\n", 44549160},
      {"family = \"resnet\"\ndepth = 152\n", 60192808},      {"family = \"mobilenet_v2\"\n", 3504872},
      {"family = \"mobilenet_v2\"\nwidth = 0.5\n", 1968680}, {"family = \"mobilenet_v2\"\nwidth = 1.4\n", 6108776},
  };
  for (const auto& [text, count] : sizes) {
    CAPTURE(text);
    CHECK(parameters(built(text, kImageNet).graph) == count);
  }
}

TEST_CASE("resnet for small images has the parameters of section 4.2, and its projections") {
  // Of the paper's tables for ten classes with identity shortcuts, and two 1x1 convolutions with batch norm.
  const std::int64_t projections = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64;
  for (const auto& [depth, count] : {std::pair{20, 269722}, {32, 464154}, {44, 658586}, {56, 853018}}) {
    CAPTURE(depth);
    CHECK(parameters(built(fmt::format("family = \"resnet\"\ndepth = {}\n", depth), kCifar).graph) ==
          count + projections);
  }
}

TEST_CASE("resnet: shapes, names and the resolved config") {
  const Built large = built("family = \"resnet\"\ndepth = 50\n", kImageNet);
  graph::validate(large.graph);
  CHECK(dims_of(large.graph, "stem") == "[batch,112,112,64]");
  CHECK(dims_of(large.graph, "pool1") == "[batch,56,56,64]");
  CHECK(dims_of(large.graph, "stage1.block1.shortcut.norm") == "[batch,56,56,256]");
  CHECK(dims_of(large.graph, "stage2.block1.conv1") == "[batch,56,56,128]");  // the stride is in the 3x3
  CHECK(dims_of(large.graph, "stage2.block1.conv2") == "[batch,28,28,128]");
  CHECK(dims_of(large.graph, "stage4.block3.add") == "[batch,7,7,2048]");
  CHECK(dims_of(large.graph, "logits") == "[batch,1000]");
  CHECK(
      large.config ==
      R"({"depth":50,"dropout":0.0,"family":"resnet","stem":"imagenet","stochastic_depth":0.0,"width":1.0,"zero_init_residual":false})");
  const Built small = built("family = \"resnet\"\ndepth = 20\n", kCifar);
  CHECK(dims_of(small.graph, "stage1.block1.add") == "[batch,32,32,16]");
  CHECK(small.graph.find("stage1.block1.shortcut") == graph::kNone);
  CHECK(dims_of(small.graph, "stage3.block3.add") == "[batch,8,8,64]");
  CHECK(dims_of(built("family = \"resnet\"\ndepth = 18\nstem = \"cifar\"\nwidth = 0.5\n", kCifar).graph,
                "stage4.block2.add") == "[batch,4,4,256]");
}

TEST_CASE("mobilenet_v2: shapes, names and fewer halvings") {
  const Built large = built("family = \"mobilenet_v2\"\n", kImageNet);
  graph::validate(large.graph);
  CHECK(large.graph.find("block1.expand") == graph::kNone);
  CHECK(dims_of(large.graph, "block2.expand") == "[batch,112,112,96]");
  CHECK(dims_of(large.graph, "block2.depthwise") == "[batch,56,56,96]");
  CHECK(dims_of(large.graph, "block2.depthwise.weight") == "[96,3,3,1]");
  CHECK(dims_of(large.graph, "block3.add") == "[batch,56,56,24]");
  CHECK(dims_of(large.graph, "head") == "[batch,7,7,1280]");
  CHECK(large.config == R"({"dropout":0.2,"family":"mobilenet_v2","halvings":5,"stochastic_depth":0.0,"width":1.0})");
  const Built small = built("family = \"mobilenet_v2\"\nhalvings = 3\n", kCifar);
  CHECK(dims_of(small.graph, "block3.add") == "[batch,32,32,24]");
  CHECK(dims_of(small.graph, "block4.depthwise") == "[batch,16,16,144]");
  CHECK(dims_of(small.graph, "head") == "[batch,4,4,1280]");
}

TEST_CASE("residual blocks: a growing rate of stochastic depth, and gammas that start at zero") {
  const Built model = built(
      "family = \"resnet\"\ndepth = 20\nstochastic_depth = 0.45\nzero_init_residual = true\ndropout = 0.1\n", kCifar);
  int drops = 0;
  for (const graph::Node& node : model.graph.nodes) {
    if (node.op != graph::Op::kDropout || !node.attrs.whole_example) continue;
    CHECK(node.attrs.rate == doctest::Approx(0.05 * ++drops));
    CHECK(node.attrs.stream == static_cast<std::uint64_t>(drops));
  }
  CHECK(drops == 9);
  CHECK(count_of(model.graph, graph::Op::kDropout) == 10);
  CHECK(count_of(graph::to_inference(model.graph), graph::Op::kDropout) == 0);
  const graph::Tensors tensors = initialize(model, 1);
  const auto first = [&](const char* name) {
    float value = -1;
    std::memcpy(&value, tensors.at(name).data.data(), sizeof value);
    return value;
  };
  CHECK(first("stage1.block1.conv1.norm.gamma") == 1);
  CHECK(first("stage1.block1.conv2.norm.gamma") == 0);
  CHECK(first("stage2.block1.shortcut.norm.gamma") == 1);
}

TEST_CASE("training fuses activations into norms and sums; inference has no norms and the same logits") {
  struct Family {
    const char* text;
    int sums;
  };
  for (const Family& family : {Family{"family = \"resnet\"\ndepth = 18\nwidth = 0.125\nstem = \"cifar\"\n", 8},
                               Family{"family = \"mobilenet_v2\"\nwidth = 0.25\nhalvings = 2\n", 13}}) {
    CAPTURE(family.text);
    const Built model = built(family.text, InputSpec::images(16, 16, 3, 5));
    const graph::Graph training = graph::to_training(model.graph, {}, 0).graph;
    CHECK(count_of(training, graph::Op::kRelu) + count_of(training, graph::Op::kRelu6) == 0);

    graph::Tensors tensors = initialize(model, 3);
    for (auto& [name, tensor] : tensors) {  // statistics as a training leaves them, so that folding has work to do
      const bool mean = name.ends_with("running_mean");
      if (!mean && !name.ends_with("running_var") && !name.ends_with("beta")) continue;
      auto* values = reinterpret_cast<float*>(tensor.data.data());
      for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
        values[i] += (mean ? -0.3f : 0.1f) + 0.5f * kernels::to_unit(kernels::random_u32(1, name.size(), 0, i));
    }
    const graph::Graph plain = graph::to_inference(model.graph);
    graph::Tensors folded = tensors;
    const graph::Graph fused = graph::fuse(plain, folded);
    graph::validate(fused);
    CHECK(count_of(fused, graph::Op::kBatchNormInference) == 0);
    CHECK(count_of(fused, graph::Op::kRelu) + count_of(fused, graph::Op::kRelu6) == 0);
    CHECK(count_of(fused, graph::Op::kAdd) == family.sums);

    std::vector<float> images(4 * 16 * 16 * 3);
    for (std::size_t i = 0; i < images.size(); ++i)
      images[i] = kernels::to_unit(kernels::random_u32(2, 2, 2, i)) - 0.5f;
    const std::vector<float> expected = logits(plain, tensors, images, {4, 16, 16, 3}),
                             got = logits(fused, folded, images, {4, 16, 16, 3});
    REQUIRE(expected.size() == 20);
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::abs(value));
    CHECK(largest > 1e-3f);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-4f * largest);
  }
}

TEST_CASE("resnet and mobilenet_v2: an error in a config names the place and what was expected") {
  CHECK(says(wrong("family = \"resnet\"\n"), "t.toml: [model] needs the key 'depth'"));
  CHECK(says(wrong("family = \"resnet\"\ndepth = 19\n"),
             "t.toml:3: [model] depth: expected one of 18, 20, 32, 34, 44, 50, 56, 101, 152, got 19"));
  CHECK(says(wrong("family = \"resnet\"\ndepth = 20\nstem = \"tiny\"\n"), "t.toml:4: [model] stem: expected one of"));
  CHECK(says(wrong("family = \"resnet\"\ndepth = 20\nwidth = 0\n"), "t.toml:4: [model] width: expected a number from"));
  CHECK(says(wrong("family = \"resnet\"\ndepth = 20\nstochastic_dept = 0.1\n"), "did you mean 'stochastic_depth'?"));
  CHECK(says(wrong("family = \"resnet\"\ndepth = 18\n", InputSpec::images(12, 12, 1, 10)),
             "t.toml:3: [model] depth: the images are too small: stage4.block1 would halve an image of 1x1x256; stem = "
             "\"cifar\" halves less"));
  CHECK(says(wrong("family = \"mobilenet_v2\"\n", InputSpec::images(12, 12, 1, 10)),
             "t.toml:2: [model] family: the images are too small for 5 halvings: an image of 1x1x"));
  CHECK(says(wrong("family = \"mobilenet_v2\"\nhalvings = 6\n"),
             "t.toml:3: [model] halvings: expected an integer from 0 to 5"));
  CHECK(says(wrong("family = \"mobilenet_v2\"\ndepth = 18\n"), "unknown key 'depth'"));
}
