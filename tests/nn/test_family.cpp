// Families: the graphs that configs make, and what is said of configs that are wrong.

#include "base/json.h"
#include "built.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

const char* const kCnn =
    "name = \"clf\"\n"
    "family = \"cnn\"\n"
    "layers = [\n"
    "  { conv = 32, kernel = 3, norm = \"batch\", activation = \"relu\" },\n"
    "  { pool = \"max\", size = 2 },\n"
    "  { conv = 64, kernel = 5, stride = 2, groups = 4, activation = \"gelu\" },\n"
    "  { dropout = 0.25 },\n"
    "  { flatten = true },\n"
    "  { dense = 128, activation = \"relu\" },\n"
    "]\n";

std::string wrong_layers(const std::string& layers, const InputSpec& input = InputSpec::images(28, 28, 1, 10)) {
  return complaint([&] { (void)built("family = \"cnn\"\nlayers = [\n" + layers + "\n]\n", input); }, ErrorKind::kUsage);
}

}  // namespace

TEST_CASE("cnn: shapes, names and the resolved config") {
  const Built cnn = built(kCnn);
  const graph::Graph& graph = cnn.graph;
  graph::validate(graph);
  CHECK(cnn.family == "cnn");
  CHECK(dims_of(graph, "images") == "[batch,28,28,1]");
  CHECK(dims_of(graph, "conv1.weight") == "[32,3,3,1]");
  CHECK(graph.find("conv1.bias") == graph::kNone);
  CHECK(dims_of(graph, "conv1.norm.gamma") == "[32]");
  CHECK(graph.value(graph.find("conv1.norm.running_var")).role == graph::Role::kState);
  CHECK(dims_of(graph, "conv2.weight") == "[64,5,5,8]");
  CHECK(dims_of(graph, "conv2.bias") == "[64]");
  CHECK(dims_of(graph, "dense1.weight") == "[128,3136]");  // 7 * 7 * 64
  CHECK(dims_of(graph, "classifier.weight") == "[10,128]");
  REQUIRE(graph.outputs.size() == 1);
  CHECK(graph.value(graph.outputs[0]).name == "logits");
  CHECK(dims_of(graph, "logits") == "[batch,10]");
  CHECK(
      cnn.config ==
      R"({"family":"cnn","layers":[{"activation":"relu","conv":32,"groups":1,"kernel":3,"norm":"batch","padding":"same","stride":1},)"
      R"({"padding":"valid","pool":"max","size":2,"stride":2},)"
      R"({"activation":"gelu","conv":64,"groups":4,"kernel":5,"norm":"none","padding":"same","stride":2},)"
      R"({"dropout":0.25},{"flatten":true},{"activation":"relu","dense":128,"norm":"none"}]})");
}

TEST_CASE("family: bug: the graph's input was named by the form of the data, and not by its kind") {
  InputSpec points = InputSpec::rows(3, 2), volumes = InputSpec::images(8, 8, 4, 2);
  points.name = "points", volumes.name = "volumes";
  CHECK(dims_of(built("family = \"mlp\"\nhidden = [4]", points).graph, "points") == "[batch,3]");
  CHECK(dims_of(built("family = \"mlp\"\nhidden = [4]", volumes).graph, "volumes") == "[batch,8,8,4]");
  CHECK(dims_of(built("family = \"mlp\"\nhidden = [4]", InputSpec::rows(3, 2)).graph, "features") == "[batch,3]");
}

TEST_CASE("cnn: a separate norm after the pooling that follows its convolution") {
  const Built cnn = built(
      "family = \"cnn\"\nlayers = [{ conv = 4, activation = \"none\" }, { pool = \"max\" }, { norm = \"batch\", "
      "activation = \"relu6\" }, { pool = \"global\" }]");
  CHECK(dims_of(cnn.graph, "norm1.relu6") == "[batch,14,14,4]");
  CHECK(dims_of(cnn.graph, "norm1.running_var") == "[4]");
  CHECK(cnn.config.find(R"({"activation":"relu6","norm":"batch"})") != std::string::npos);
}

TEST_CASE("cnn: padding, strides and global pooling") {
  CHECK(dims_of(built("family = \"cnn\"\nlayers = [{ conv = 4, kernel = 4, stride = 3 }, { pool = \"global\" }]",
                      InputSpec::images(29, 31, 3, 5))
                    .graph,
                "conv1") == "[batch,10,11,4]");
  CHECK(
      dims_of(built("family = \"cnn\"\nlayers = [{ conv = 4, kernel = 5, padding = \"valid\" }, { pool = \"global\" }]")
                  .graph,
              "conv1") == "[batch,24,24,4]");
  CHECK(dims_of(built("family = \"cnn\"\nlayers = [{ pool = \"max\", size = 3, stride = 2, padding = \"same\" }, { "
                      "pool = \"global\" }]")
                    .graph,
                "pool1") == "[batch,14,14,1]");
  CHECK(dims_of(built("family = \"cnn\"\nlayers = [{ conv = 4 }, { pool = \"global\" }]").graph, "classifier.weight") ==
        "[10,4]");
}

TEST_CASE("mlp: hidden layers after a flattened image") {
  const Built mlp = built("family = \"mlp\"\nhidden = [512, 256]\ndropout = 0.1\nnorm = \"batch\"\n");
  CHECK(dims_of(mlp.graph, "dense1.weight") == "[512,784]");
  CHECK(dims_of(mlp.graph, "dense2.norm.beta") == "[256]");
  CHECK(dims_of(mlp.graph, "logits") == "[batch,10]");
  CHECK(mlp.config == R"({"activation":"relu","dropout":0.1,"family":"mlp","hidden":[512,256],"norm":"batch"})");
  CHECK(dims_of(built("family = \"mlp\"\nhidden = []\n").graph, "classifier.weight") == "[10,784]");
}

TEST_CASE("mlp: rows of features; every family declares which data it takes") {
  const Built rows = built("family = \"mlp\"\nhidden = [16]\n", InputSpec::rows(7, 3));
  CHECK(dims_of(rows.graph, "features") == "[batch,7]");
  CHECK(dims_of(rows.graph, "dense1.weight") == "[16,7]");
  CHECK(dims_of(rows.graph, "logits") == "[batch,3]");
  const auto refused = [](const char* text, const InputSpec& input) {
    return complaint([&] { (void)built(text, input); }, ErrorKind::kUsage);
  };
  CHECK(refused("family = \"cnn\"\nlayers = [{ conv = 3 }]\n", InputSpec::rows(7, 3)) ==
        "t.toml:2: [model] family: \"cnn\" takes images, the dataset holds rows of features");
  CHECK(refused("family = \"mlp\"\nhidden = [3]\n", InputSpec::tokens(9)) ==
        "t.toml:2: [model] family: \"mlp\" takes images or rows of features, the dataset holds text");
  CHECK(refused("family = \"gpt2\"\n", InputSpec::images(8, 8, 1, 2)) ==
        "t.toml:2: [model] family: \"gpt2\" takes text, the dataset holds images");
}

TEST_CASE("gpt2: shapes, defaults and parameters of the published model") {
  const Built gpt = built("family = \"gpt2\"\n", InputSpec::tokens(50257));
  graph::validate(gpt.graph);
  CHECK(gpt.context == 1024);
  CHECK(dims_of(gpt.graph, "ids") == "[batch,sequence]");
  CHECK(dims_of(gpt.graph, "logits") == "[batch,sequence,50257]");
  std::int64_t parameters = 0;
  for (const graph::Value& value : gpt.graph.values) {
    if (value.role == graph::Role::kParameter) parameters += graph::concrete(value, {}).count();
  }
  CHECK(parameters == 124'439'808);
  CHECK(gpt.config ==
        R"({"context":1024,"dropout":0.0,"family":"gpt2","heads":12,"layers":12,"vocabulary":50257,"width":768})");
  CHECK(says(complaint([] { (void)built("family = \"gpt2\"\nheads = 5\nwidth = 64\n", InputSpec::tokens(10)); },
                       ErrorKind::kUsage),
             "t.toml:3: [model] heads: 5 heads do not divide the width 64"));
}

TEST_CASE("llama: shapes, grouped heads, defaults and errors") {
  const Built llama = built("family = \"llama\"\nlayers = 2\nwidth = 96\nheads = 6\nkv_heads = 2\ncontext = 40\n",
                            InputSpec::tokens(33));
  graph::validate(llama.graph);
  CHECK(llama.context == 40);
  CHECK(dims_of(llama.graph, "block1.attention.qkv.weight") == "[160,96]");  // 6 + 2 + 2 heads of 16
  CHECK(dims_of(llama.graph, "block0.mlp.up.weight") == "[512,96]");         // gate and up of 256
  CHECK(dims_of(llama.graph, "block0.mlp.down.weight") == "[96,256]");
  CHECK(dims_of(llama.graph, "head.weight") == "[33,96]");
  CHECK(dims_of(llama.graph, "logits") == "[batch,sequence,33]");
  CHECK(llama.graph.find("block0.mlp.up.bias") == graph::kNone);
  CHECK(
      llama.config ==
      R"({"context":40,"dropout":0.0,"family":"llama","heads":6,"hidden":256,"kv_heads":2,"layers":2,"theta":10000.0,"tie":false,"vocabulary":33,"width":96})");
  const Built tied = built("family = \"llama\"\nlayers = 1\nwidth = 32\nheads = 2\ntie = true\n", InputSpec::tokens(9));
  CHECK(tied.graph.find("head.weight") == graph::kNone);
  const auto wrong = [](const std::string& keys) {
    return complaint([&] { (void)built("family = \"llama\"\nwidth = 32\n" + keys, InputSpec::tokens(9)); },
                     ErrorKind::kUsage);
  };
  CHECK(says(wrong("heads = 5\n"), "t.toml:4: [model] heads: 5 heads do not divide the width 32"));
  CHECK(says(wrong("heads = 32\n"), "32 heads of the width 32 are 1 wide, rotary positions need an even width"));
  CHECK(says(wrong("heads = 4\nkv_heads = 3\n"),
             "t.toml:5: [model] kv_heads: 3 heads of keys do not divide the 4 heads"));
  CHECK(says(wrong("heads = 4\nkv_heads = 8\n"), "expected an integer from 1 to 4"));
  CHECK(says(wrong("heads = 4\nhidden = 16777216\ncontext = 8\nwidht = 3\n"), "did you mean 'width'?"));
}

// A graph is whole, and mlx-format-graph(5) lists every attribute that it sets.
static void check_graph(const graph::Graph& graph) {
  graph::validate(graph);
  for (const graph::Node& node : graph.nodes) CHECK_MESSAGE(graph::unread_attribute(node).empty(), node.name);
}

TEST_CASE("families: training and inference graphs can be made of them") {
  for (const std::string& text :
       {std::string(kCnn), std::string("family = \"mlp\"\nhidden = [32]\nactivation = \"gelu\"\n")}) {
    const Built model = built(text);
    check_graph(graph::to_training(model.graph, {}, 0.1f).graph);
    graph::Tensors tensors = initialize(model.graph, model.family, 1);
    check_graph(graph::fuse(graph::to_inference(model.graph), tensors));
  }
  for (const char* family : {"gpt2", "llama"}) {
    const Built model =
        built(fmt::format("family = \"{}\"\nlayers = 2\nwidth = 32\nheads = 4\ndropout = 0.1\n", family),
              InputSpec::tokens(17));
    check_graph(graph::to_training(model.graph, {}, 0.0f).graph);
    const graph::Graph inference = graph::to_inference(model.graph);
    const graph::DecodingGraph decoding = graph::to_decoding(inference);
    check_graph(decoding.graph);
    CHECK(decoding.context == 1024);
    for (const graph::Value& value : inference.values) {
      if (value.role == graph::Role::kParameter) CHECK(decoding.graph.find(value.name) != graph::kNone);
    }
  }
  CHECK_THROWS_AS((void)graph::to_decoding(graph::to_inference(built(kCnn).graph)), Error);
}

TEST_CASE("families: an error in a config names the place and what was expected") {
  const auto wrong = [](const std::string& text) { return complaint([&] { (void)built(text); }, ErrorKind::kUsage); };
  CHECK(says(wrong("name = \"x\"\n"), "t.toml: [model] needs the key 'family'"));
  CHECK(says(wrong("family = \"cmn\"\n"), "t.toml:2: [model] family: expected one of \"cnn\", \"mlp\","));
  CHECK(says(wrong("family = \"cmn\"\n"), "got \"cmn\" | did you mean \"cnn\"?"));
  CHECK(
      says(wrong("family = \"mlp\"\nhiden = [3]\n"), "t.toml:3: [model] unknown key 'hiden' | did you mean 'hidden'?"));
  CHECK(says(wrong("family = \"mlp\"\nhidden = [3]\ndropuot = 0.1\n"),
             "t.toml:4: [model] unknown key 'dropuot' | did you mean 'dropout'?"));
  CHECK(says(wrong("family = \"mlp\"\nhidden = [3, 0]\n"),
             "t.toml:3: [model] hidden: expected an array, each an integer from 1"));
  CHECK(says(wrong("family = \"mlp\"\nhidden = [3]\ndropout = 1.5\n"),
             "dropout: expected a number from 0 to 0.99, got 1.5"));
  CHECK(says(wrong("family = \"mlp\"\nhidden = [16777216, 16777216]\n"),
             "t.toml:3: [model] hidden: it would have more than"));
  CHECK(says(wrong("family = \"cnn\"\nlayers = []\n"), "t.toml:3: [model] layers: expected at least one layer"));
  CHECK(says(wrong("family = \"cnn\"\nlayers = [3]\n"), "expected an array of tables"));
}

TEST_CASE("cnn: a wrong layer is named with its line and number, and shapes that do not fit with both") {
  CHECK(says(wrong_layers("{ conv = 8 },\n{ conw = 3 }"),
             "t.toml:5: [[model.layers]] #2 conw: a layer needs exactly one of conv, pool, dropout, flatten, dense, "
             "norm; it has conw; did you mean 'conv'?"));
  CHECK(says(wrong_layers("{ }"), "it is empty"));
  CHECK(says(wrong_layers("{ conv = 8, dense = 3 }"), "'conv' or 'dense', not both"));
  CHECK(says(wrong_layers("{ conv = 8, kernal = 3 }"),
             "t.toml:4: [[model.layers]] #1 unknown key 'kernal' | did you mean 'kernel'?"));
  CHECK(says(wrong_layers("{ conv = \"8\" }"), "conv: expected an integer from 1 to 65536, got \"8\""));
  CHECK(says(wrong_layers("{ pool = \"avg\" }"), "pool: expected one of \"max\", \"global\", got \"avg\""));
  CHECK(says(wrong_layers("{ pool = \"global\", size = 2 }"), "unknown key 'size'"));
  CHECK(says(wrong_layers("{ flatten = false }"), "expected true"));
  CHECK(says(wrong_layers("{ norm = \"none\" }"), "norm: expected \"batch\"; leave the layer out instead"));
  CHECK(says(wrong_layers("{ norm = \"batch\", kernel = 3 }"), "unknown key 'kernel'"));
  CHECK(says(wrong_layers("{ conv = 8 },\n{ dense = 3 }"),
             "t.toml:5: [[model.layers]] #2 dense: a dense layer needs a flat input, its input has shape 28x28x8"));
  CHECK(says(wrong_layers("{ flatten = true },\n{ conv = 3 }"),
             "#2 conv: a convolution needs images of height x width x channels, its input has shape 784"));
  CHECK(says(wrong_layers("{ flatten = true },\n{ flatten = true }"), "its input of 784 is flat already"));
  CHECK(says(wrong_layers("{ conv = 3, kernel = 29, padding = \"valid\" }"),
             "a kernel of 29x29 does not fit its input of 28x28x1"));
  CHECK(says(wrong_layers("{ pool = \"max\", size = 32 }"), "a window of 32x32 does not fit its input of 28x28x1"));
  CHECK(says(wrong_layers("{ conv = 6 },\n{ conv = 8, groups = 4 }"),
             "4 groups do not divide both the 6 channels of its input (28x28x6) and its 8 filters"));
  CHECK(says(wrong_layers("{ conv = 8 }"), "layers: the last layer gives 28x28x8, the classifier needs a flat input"));
  CHECK(says(wrong_layers("{ conv = 65536 }, { conv = 65536 }, { pool = \"global\" }"),
             "#2 conv: it would have more than 2147483648 weights"));
}
