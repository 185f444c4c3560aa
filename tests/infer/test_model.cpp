// A model ready to answer: its signature for each kind of input, batches that are filled up, sessions in threads, and
// rows out of named values.

#include <cmath>
#include <cstring>
#include <thread>

#include "../nn/built.h"
#include "data/kinds/images_dataset.h"
#include "infer/answers.h"
#include "infer/examples.h"

using namespace mlx;
using namespace mlx::infer;
using nn::built;
using nn::complaint;
using nn::InputSpec;
using nn::says;

namespace {

nn::Model initialized(const nn::Built& made) {
  nn::Model model;
  model.family = made.family;
  model.config = made.config;
  model.graph = made.graph;
  model.weights = std::make_shared<const graph::Weights>(nn::initialize(made.graph, made.family, 7));
  return model;
}

nn::Model image_model() {
  nn::Model model = initialized(built("family = \"mlp\"\nhidden = [8]\n", InputSpec::images(4, 5, 2, 3)));
  model.preprocessing = {4, 5, 2, {{0.5f, 0.25f}, {0.5f, 0.125f}}, {}};
  return model;
}

// Rooms, a number, and the city, of two, or neither.
data::RowSchema schema_of(data::TargetKind kind) {
  data::RowSchema schema;
  schema.kind = kind;
  schema.features = {{"rooms", {}, 3, 2, false}, {"city", {"Bonn", "Ulm"}, 0, 1, false}};
  if (kind == data::TargetKind::kClass)
    schema.targets = {{"kind", {"big", "small"}, 0, 1, false}};
  else
    schema.targets = {{"price", {}, 100, 10, false}, {"rent", {}, 5, 2, false}};
  return schema;
}

nn::Model row_model(data::TargetKind kind) {
  nn::Model model = initialized(built("family = \"mlp\"\nhidden = [8]\n", InputSpec::rows(3, 2)));
  model.preprocessing.rows = schema_of(kind);
  return model;
}

nn::Model text_model() {
  return initialized(
      built("family = \"gpt2\"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 12\n", InputSpec::tokens(13)));
}

std::string text_of(const std::vector<TensorSpec>& tensors) {
  std::string out;
  for (const TensorSpec& tensor : tensors) {
    out += fmt::format("{}{} {} [", out.empty() ? "" : ", ", tensor.name, tensor.datatype);
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) out += fmt::format("{}{}", i ? "," : "", tensor.shape[i]);
    out += "]";
  }
  return out;
}

std::vector<double> answers_of(const Model& model, const data::Rows& rows, std::int64_t max_batch) {
  NoProgress silent;
  Session session(model, {.max_batch = max_batch});
  return answer_rows(session, rows, silent).values;
}

}  // namespace

TEST_CASE("infer: a signature names inputs and outputs as the inference protocol does") {
  const Signature images = signature_of(image_model());
  CHECK(images.takes == Takes::kImages);
  CHECK(text_of(images.inputs) == "images UINT8 [-1,4,5,2]");
  CHECK(text_of(images.outputs) == "probabilities FP32 [-1,3], label BYTES [-1], class INT64 [-1]");
  CHECK(images.labels == std::vector<std::string>{"0", "1", "2"});
  CHECK(images.example == 40);
  CHECK(images.batches);

  const Signature classes = signature_of(row_model(data::TargetKind::kClass));
  CHECK(text_of(classes.inputs) == "rooms FP64 [-1], city BYTES [-1]");
  CHECK(text_of(classes.outputs) == "probabilities FP32 [-1,2], label BYTES [-1], class INT64 [-1]");
  CHECK(classes.labels == std::vector<std::string>{"big", "small"});
  CHECK(text_of(signature_of(row_model(data::TargetKind::kLabels)).outputs) == "probabilities FP32 [-1,2]");
  CHECK(text_of(signature_of(row_model(data::TargetKind::kNumbers)).outputs) == "price FP64 [-1], rent FP64 [-1]");

  const Signature text = signature_of(text_model());
  CHECK(text.takes == Takes::kText);
  CHECK(text_of(text.inputs) == "text_input BYTES [1]");
  CHECK(text_of(text.outputs) == "text_output BYTES [1]");
  CHECK(text.context == 12);
  CHECK_FALSE(text.batches);

  nn::Model bare = image_model();
  bare.preprocessing = {};
  const Signature tensors = signature_of(bare);
  CHECK(tensors.takes == Takes::kTensors);
  CHECK(text_of(tensors.inputs) == "images FP32 [-1,4,5,2]");
  CHECK(text_of(tensors.outputs) == "logits FP32 [-1,3]");
}

TEST_CASE("infer: a model takes the kind of data whose input its graph has") {
  data::Description images;
  images.kind = &data::images_kind;
  images.height = 4, images.width = 5, images.channels = 2, images.outputs = 3;
  check_fits(image_model(), images);
  images.width = 6;
  CHECK(says(complaint([&] { check_fits(image_model(), images); }, ErrorKind::kUsage),
             "the model takes images of 4x5x2, the data holds 4x6x2"));
  CHECK(says(complaint([&] { check_fits(text_model(), images); }, ErrorKind::kUsage),
             "the model takes text, the data holds images"));
  // bug: a graph whose input no dataset has was taken for one of images.
  nn::Model other = image_model();
  other.graph.values[static_cast<std::size_t>(other.graph.inputs[0])].name = "x";
  CHECK(kind_of(other) == nullptr);
  CHECK(says(complaint([&] { check_kind(other, data::images_kind); }, ErrorKind::kUsage),
             "the model takes other inputs, the data holds images"));
  CHECK(context_of(other) == 0);
  CHECK(context_of(text_model()) == 12);
}

TEST_CASE("infer: a model with contradictory parts is refused") {
  nn::Model model = image_model();
  model.labels = {"a", "b"};
  CHECK(says(complaint([&] { signature_of(model); }, ErrorKind::kCorrupt), "2 labels for 3 classes"));
  model.labels.clear();
  model.preprocessing.normalization.mean.pop_back();
  CHECK(says(complaint([&] { signature_of(model); }, ErrorKind::kCorrupt), "normalises 1 channels"));
  nn::Model rows = row_model(data::TargetKind::kClass);
  rows.preprocessing.rows->targets[0].values.emplace_back("tiny");
  CHECK(says(complaint([&] { signature_of(rows); }, ErrorKind::kCorrupt), "3 outputs, its graph 2"));
}

TEST_CASE("infer: a padded batch gives each example the same answer as alone") {
  Pool pool(2);
  const Model model(image_model(), kernels::best_backend(), pool);
  Bytes pixels(static_cast<std::size_t>(7 * 40));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
  Session session(model, {.max_batch = 6});
  CHECK(session.padded(1) == 1);
  CHECK(session.padded(3) == 4);
  CHECK(session.padded(5) == 6);
  session.warm_up();
  NoProgress silent;
  const Answers all = answer_images(session, pixels, silent);  // 6 and 1
  REQUIRE(all.count == 7);
  REQUIRE(all.values.size() == 21);
  for (std::size_t i = 0; i < 7; ++i) {
    const Answers one = answer_images(session, ByteView(pixels).subspan(i * 40, 40), silent);
    for (std::size_t c = 0; c < 3; ++c) CHECK(one.values[c] == doctest::Approx(all.values[3 * i + c]).epsilon(1e-6));
    CHECK(one.values[0] + one.values[1] + one.values[2] == doctest::Approx(1));
  }
  CHECK_THROWS_AS(Session(model, {.max_batch = 0}), Error);
}

TEST_CASE("infer: sessions of one model answer in several threads at once") {
  Pool pool(2);
  const Model model(row_model(data::TargetKind::kNumbers), kernels::best_backend(), pool);
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += fmt::format("{{\"rooms\":{},\"city\":\"{}\"}}\n", i, i % 3 == 0 ? "Bonn" : "Ulm");
  const data::Rows read = rows_of(rows, *model.about().preprocessing.rows, "x");
  const std::vector<double> expected = answers_of(model, read, 16);
  std::vector<std::vector<double>> got(4);
  std::vector<std::thread> threads;
  for (std::vector<double>& one : got) threads.emplace_back([&] { one = answers_of(model, read, 16); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<double>& one : got) CHECK(one == expected);
}

TEST_CASE("infer: rows given as named values equal the same rows of a file") {
  Pool pool(1);
  const data::RowSchema schema = schema_of(data::TargetKind::kNumbers);
  NoProgress silent;
  const data::Rows file = data::read_rows(
      {data::memory_source("city,rooms\nBonn,2.5\nRome,4\n"), data::TableKind::kCsv, "x.csv"}, schema, false, silent);
  const std::string first = R"({"rooms": 2.5, "city": "Bonn", "more": 1})";
  const std::string named = first + "\n" + R"({"city": "Rome", "rooms": 4})";
  const data::Rows rows = rows_of(named, schema, "the request");
  CHECK(rows.count == 2);
  CHECK(rows.numbers == file.numbers);
  CHECK(rows.codes == file.codes);
  CHECK(rows_of(first, schema, "the request").count == 1);
  const Model model(row_model(data::TargetKind::kNumbers), kernels::best_backend(), pool);
  CHECK(answers_of(model, rows, 8) == answers_of(model, file, 8));

  const auto wrong = [&](const char* text) {
    try {
      rows_of(text, schema, "the request");
    } catch (const Error& error) {
      return error.message;
    }
    return std::string("no error");
  };
  CHECK(says(wrong(R"({"rooms": 2})"), "the request: row 1: column 'city' has no value"));
  CHECK(says(wrong("{\"rooms\": 2, \"city\": \"Ulm\"}\n{\"rooms\": 1}"), "row 2: column 'city' has no value"));
  CHECK(says(wrong(R"({"rooms": "two", "city": "Ulm"})"), "row 1: column 'rooms': 'two' is not a number"));
  CHECK(says(wrong(R"([3])"), "row 1: column 'rooms' has no value"));
}

TEST_CASE("infer: values inside the graph can be observed, and tensors fed as they are") {
  Pool pool(1);
  nn::Model bare = image_model();
  bare.preprocessing = {};
  const Model model(bare, kernels::backend_named("ref"), pool);
  const graph::ValueId hidden = model.graph().nodes.at(1).outputs.at(0);
  Session session(model, {.observe = {hidden}});
  const std::vector<float> x(80, 0.5f);
  session.run({{model.graph().inputs[0], x.data(), {2, 4, 5, 2}}});
  CHECK(session.shape(hidden).dims[0] == 2);
  CHECK(session.value(hidden).size() == session.shape(hidden).bytes());
  CHECK(session.value(model.graph().outputs[0]).size() == 2 * 3 * sizeof(float));
}

TEST_CASE("infer: softmax of large logits, and of those with a known share") {
  CHECK(softmax(std::vector<float>{1000, 1000}) == std::vector<double>{0.5, 0.5});
  CHECK(softmax(std::vector<float>{0, std::log(3.0f)})[1] == doctest::Approx(0.75));
}
