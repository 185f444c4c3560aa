// Models in the store: what is stored loads the same, the same model is the same version, and files that lie are
// corrupt.

#include <cmath>
#include <random>

#include "base/json.h"
#include "base/path.h"
#include "built.h"
#include "nn/model_json.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

Model trained() {
  Built built_model = built(
      "family = \"cnn\"\nlayers = [{ conv = 4, norm = \"batch\" }, { pool = \"max\" }, { dropout = 0.1 }, { flatten = "
      "true }]",
      InputSpec::images(8, 8, 3, 3));
  Model model;
  model.family = built_model.family;
  model.config = built_model.config;
  model.weights = std::make_shared<const graph::Weights>(initialize(built_model.graph, model.family, 5));
  model.graph = std::move(built_model.graph);
  model.preprocessing = {8, 8, 3, {{0.1f, 0.2f, 0.3f}, {0.9f, 1.0f / 3, 1e-3f}}};
  model.labels = {"cat", "dög", "\"quoted\""};
  model.data = R"({"dataset":"sha256:00","splits":["train"]})";
  return model;
}

struct Repository {
  TempFolder folder;
  std::unique_ptr<store::Disk> disk = store::real_disk();
  Pool pool{1};
  std::unique_ptr<store::Store> store;
  Repository() {
    store::Store::create(folder.path() + "/.mlx", *disk);
    store = std::make_unique<store::Store>(folder.path() + "/.mlx", *disk, pool);
  }
  Digest add(std::string_view description, const Bytes& weights) {
    const auto batch = store->begin();
    const Digest id =
        batch
            ->add_manifest({{kModelFile, store::kModeFile, description.size(), batch->add_blob(as_bytes(description))},
                            {kWeightsFile, store::kModeFile, weights.size(), batch->add_blob(weights)}})
            .id;
    batch->commit();
    return id;
  }
};

// What loading says of a description changed by `change`.
template <typename Change>
std::string changed(Change change) {
  Json json = model_json(trained());
  change(json);
  return complaint([&] { (void)model_from_json(json, "m"); }, ErrorKind::kCorrupt);
}

}  // namespace

TEST_CASE("model: stored, loaded, stored again: the same bits and the same version") {
  Repository here, there;
  const Model model = trained();
  const store::ManifestSummary stored = store_model(*here.store, model);
  CHECK(stored.files == 2);
  CHECK(store_model(*here.store, trained()).id == stored.id);
  CHECK(store_model(*there.store, model).id == stored.id);

  const Model loaded = load_model(*here.store, stored.id);
  CHECK(loaded.family == "cnn");
  CHECK(loaded.config == model.config);
  CHECK(loaded.labels == model.labels);
  CHECK(loaded.data == model.data);
  CHECK(loaded.precision == "f32");
  CHECK(loaded.preprocessing.width == 8);
  CHECK(loaded.preprocessing.normalization.mean == model.preprocessing.normalization.mean);
  CHECK(loaded.preprocessing.normalization.std == model.preprocessing.normalization.std);
  CHECK(canonical(graph::to_json(loaded.graph)) == canonical(graph::to_json(model.graph)));
  REQUIRE(loaded.weights->size() == model.weights->size());
  for (const auto& [name, weight] : model.weights->all()) {
    const auto found = loaded.weights->find(name);
    REQUIRE(found);
    CHECK(found->shape() == weight->shape());
    CHECK(std::ranges::equal(found->data(), weight->data()));
  }
  CHECK(store_model(*there.store, loaded).id == stored.id);

  Model other = trained();
  graph::Tensors tensors = model.weights->tensors();
  tensors.at("conv1.weight").data[0] ^= 1;
  other.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  CHECK(store_model(*here.store, other).id != stored.id);
}

TEST_CASE("model: a folder's weights are mapped and shared; a truncated or damaged file is reported") {
  Repository repository;
  const Model model = trained();
  const std::string folder = repository.folder.path() + "/m", file = folder + "/" + kWeightsFile;
  make_folders(folder);
  write_file_atomically(folder + "/" + kModelFile, canonical(model_json(model)));
  const Bytes bytes = encode_tensors(model.weights->tensors());
  write_file_atomically(file, bytes);
  FolderModel loaded = load_model_folder(folder);
  CHECK(loaded.digest == store_model(*repository.store, model).id);
  // All tensors lie in one mapping, as far apart as in the file.
  const TensorRefs in_file = view_tensors(bytes, "x");
  const std::uint8_t* const first = loaded.model.weights->find("conv1.weight")->data().data();
  for (const auto& [name, view] : in_file)
    CHECK(loaded.model.weights->find(name)->data().data() - first ==
          view.data.data() - in_file.at("conv1.weight").data.data());
  // What is mapped outlives the file's name and the model, as long as somebody refers to it.
  const auto weight = loaded.model.weights->find("conv1.weight");
  loaded = {};
  write_file_atomically(file, ByteView(bytes).first(bytes.size() - 1));
  CHECK(std::ranges::equal(weight->data(), model.weights->find("conv1.weight")->data()));
  const auto refusal = [&] { return complaint([&] { (void)load_model_folder(folder); }, ErrorKind::kCorrupt); };
  CHECK(says(refusal(), kWeightsFile));
  write_file_atomically(file, Bytes{});
  CHECK(says(refusal(), kWeightsFile));
  Bytes damaged = bytes;
  damaged[9] ^= 0x40;  // in the header
  write_file_atomically(file, damaged);
  CHECK(says(refusal(), kWeightsFile));
  write_file_atomically(file, bytes);
  CHECK(load_model_folder(folder).model.weights->size() == model.weights->size());
}

TEST_CASE("model: a version whose weights claim to be longer than its graph's is refused before they are read") {
  Repository repository;
  const std::string description = canonical(model_json(trained()));
  const auto batch = repository.store->begin();
  const Digest small = batch->add_blob(Bytes(100, 1));
  const Digest id =
      batch
          ->add_manifest({{kModelFile, store::kModeFile, description.size(), batch->add_blob(as_bytes(description))},
                          {kWeightsFile, store::kModeFile, std::uint64_t{1} << 45, small}})
          .id;
  batch->commit();
  CHECK(says(complaint([&] { (void)load_model(*repository.store, id); }, ErrorKind::kCorrupt),
             "more than the allowed size"));
}

TEST_CASE("model: a language model keeps its tokenizer, which must fit its logits") {
  Repository repository;
  const Built gpt = built("family = \"gpt2\"\nlayers = 1\nwidth = 8\nheads = 2\ncontext = 4\n", InputSpec::tokens(3));
  Model model;
  model.family = gpt.family;
  model.config = gpt.config;
  model.graph = gpt.graph;
  model.weights = std::make_shared<const graph::Weights>(initialize(gpt.graph, gpt.family, 1));
  const auto set_tokenizer = [&](const char* text) {
    model.preprocessing.tokenizer = std::make_shared<data::Tokenizer>(data::Tokenizer::chars(text, "text"));
  };
  set_tokenizer("caab");
  const store::ManifestSummary stored = store_model(*repository.store, model);
  CHECK(stored.files == 3);
  const Model loaded = load_model(*repository.store, stored.id);
  REQUIRE(loaded.preprocessing.tokenizer);
  CHECK(*loaded.preprocessing.tokenizer == *model.preprocessing.tokenizer);
  set_tokenizer("abcd");
  const Digest wrong = store_model(*repository.store, model).id;
  CHECK(says(complaint([&] { (void)load_model(*repository.store, wrong); }, ErrorKind::kCorrupt),
             "tokenizer.json: 4 tokens do not match the graph's output [batch,sequence,3]"));
}

TEST_CASE("model: model.json speaks the Open Inference Protocol") {
  const Json json = model_json(trained());
  CHECK(canonical(json["signature"]) == R"({"inputs":[{"datatype":"FP32","name":"images","shape":[-1,8,8,3]}],)"
                                        R"("outputs":[{"datatype":"FP32","name":"logits","shape":[-1,3]}]})");
  Repository repository;
  const Digest id = store_model(*repository.store, trained()).id;
  CHECK(json_string(load_model_json(*repository.store, id), "family", "x") == "cnn");
}

TEST_CASE("model: a false description is corrupt, and the message says why") {
  CHECK(changed([](Json&) {}) == "no error");
  CHECK(says(changed([](Json& j) { j["format"] = "onnx"; }), "m: 'format': expected \"mlx-model\", got \"onnx\""));
  CHECK(says(changed([](Json& j) { j["version"] = 3; }), "format version 3 is not known | a newer mlx may read it"));
  CHECK(says(changed([](Json& j) { j.erase("graph"); }), "the key 'graph' is missing"));
  CHECK(says(changed([](Json& j) { j["family"] = "vgg"; }), "unknown word 'vgg'"));
  CHECK(says(changed([](Json& j) { j["precision"] = "int3"; }), "unknown word 'int3'"));
  CHECK(says(changed([](Json& j) { j["config"] = 3; }), "'config': expected an object"));
  CHECK(says(changed([](Json& j) { j["labels"].erase(0); }), "2 labels do not match the graph's output [batch,3]"));
  CHECK(says(changed([](Json& j) { j["labels"][0] = 7; }), "expected strings"));
  CHECK(says(changed([](Json& j) { j["preprocessing"]["height"] = 9; }),
             "images of 9x8x3 do not match the graph's input [batch,8,8,3]"));
  CHECK(says(changed([](Json& j) { j["preprocessing"] = nullptr; }), "preprocessing: expected an object"));
  CHECK(says(changed([](Json& j) { j["preprocessing"]["std"][1] = 0; }), "expected numbers above 0"));
  CHECK(says(changed([](Json& j) { j["preprocessing"]["mean"][1] = 1e300; }), "numbers that fit f32"));
  CHECK(says(changed([](Json& j) { j["preprocessing"]["mean"].erase(0); }), "expected 3 numbers"));
  CHECK(says(changed([](Json& j) { j["signature"]["inputs"][0]["shape"][1] = 7; }), "'signature' does not match"));
  CHECK(says(changed([](Json& j) { j["graph"]["nodes"].erase(0); }), "m: graph"));
}

TEST_CASE("model: weights must be the graph's, no more and no less") {
  Repository repository;
  const Model model = trained();
  const std::string description = canonical(model_json(model));
  const auto wrong = [&](auto change) {
    graph::Tensors tensors = model.weights->tensors();
    change(tensors);
    const Digest id = repository.add(description, encode_tensors(tensors));
    return complaint([&] { (void)load_model(*repository.store, id); }, ErrorKind::kCorrupt);
  };
  CHECK(wrong([](graph::Tensors&) {}) == "no error");
  CHECK(says(wrong([](graph::Tensors& t) { t.erase("conv1.weight"); }),
             "weights.safetensors: the tensor 'conv1.weight' is missing"));
  CHECK(says(wrong([](graph::Tensors& t) { t["more"] = t.at("classifier.bias"); }), "the graph has no tensor 'more'"));
  CHECK(says(wrong([](graph::Tensors& t) { t["logits"] = t.at("classifier.bias"); }),
             "the graph has no tensor 'logits'"));
  CHECK(says(wrong([](graph::Tensors& t) {
               std::swap(t.at("conv1.weight").shape.dims[0], t.at("conv1.weight").shape.dims[1]);
             }),
             "'conv1.weight' does not have the graph's dtype and shape, f32 [4,3,3,3]"));
  CHECK(says(wrong([](graph::Tensors& t) { t.at("classifier.bias").shape.dtype = kernels::DType::kS32; }),
             "'classifier.bias' does not have"));
  CHECK(says(complaint([&] { (void)load_model(*repository.store, repository.add(description, to_bytes("x"))); },
                       ErrorKind::kCorrupt),
             "weights.safetensors: safetensors"));
  CHECK(says(complaint([&] { (void)load_model(*repository.store, repository.add("[1]", {})); }, ErrorKind::kCorrupt),
             "model.json: expected an object"));
  CHECK(says(complaint([&] { (void)load_model(*repository.store, repository.add("{", {})); }, ErrorKind::kCorrupt),
             "model.json: line 1"));
  const auto batch = repository.store->begin();
  const Digest empty = batch->add_manifest({{"a", store::kModeFile, 1, batch->add_blob(to_bytes("x"))}}).id;
  batch->commit();
  CHECK(says(complaint([&] { (void)load_model(*repository.store, empty); }, ErrorKind::kCorrupt),
             "model.json: there is no such file | is it a model?"));
}

TEST_CASE("model: tensors of every dtype and rank go through safetensors") {
  graph::Tensors tensors;
  using kernels::DType;
  int i = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kS32, DType::kS8, DType::kU8, DType::kI64}) {
    graph::Tensor& tensor = tensors[fmt::format("t{}", i)];
    tensor.shape = {dtype, i, {2, 3, 1, 2, 1, 2}};
    for (int d = i; d < kernels::kMaxRank; ++d) tensor.shape.dims[static_cast<std::size_t>(d)] = 0;
    tensor.data.resize(tensor.shape.bytes(), static_cast<std::uint8_t>(i + 1));
    ++i;
  }
  const graph::Tensors back = decode_tensors(encode_tensors(tensors), "x");
  REQUIRE(back.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CHECK(back.at(name).shape == tensor.shape);
    CHECK(back.at(name).data == tensor.data);
  }
  CHECK(decode_tensors(encode_tensors({}), "x").empty());
  // The same bytes, with tensors that are made as they are written; and read one by one.
  TensorRefs there;
  LateTensors late;
  std::vector<std::string> made;
  for (const auto& [name, tensor] : tensors) {
    if (late.shapes.empty())
      late.shapes[name] = tensor.shape;
    else
      there[name] = {tensor.shape, tensor.data};
  }
  late.make = [&](const std::string& name) { return made.push_back(name), tensors.at(name).data; };
  const TensorStream stream = stream_tensors(there, late);
  Bytes written(stream.size + 8);
  std::size_t at = 0;
  while (const std::size_t count = stream.read(written.data() + at, 5)) at += count;
  written.resize(at);
  const Bytes expected = encode_tensors(tensors);
  CHECK(written == expected);
  CHECK(made.size() == 1);
  const LateTensors read = late_tensors(
      expected.size(),
      [&](std::uint64_t from, void* to, std::size_t count) {
        std::copy_n(expected.data() + from, count, static_cast<std::uint8_t*>(to));
      },
      "x");
  REQUIRE(read.shapes.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CHECK(read.shapes.at(name) == tensor.shape);
    CHECK(read.make(name) == tensor.data);
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{9}, expected.size() - 1})
    CHECK_THROWS_AS((void)late_tensors(
                        size,
                        [&](std::uint64_t from, void* to, std::size_t count) {
                          std::copy_n(expected.data() + from, count, static_cast<std::uint8_t*>(to));
                        },
                        "x"),
                    Error);
}

TEST_CASE("model: mutated descriptions load or are corrupt") {
  const std::string description = canonical(model_json(trained()));
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string mutated = description;
    for (int i = 0; i < 2; ++i) {
      char& c = mutated[random() % mutated.size()];
      c = random() % 2 ? "0123456789-.[]{}\",:"[random() % 19] : static_cast<char>(random());
    }
    try {
      const Model model = model_from_json(parse_json(mutated, "m"), "m");
      graph::validate(model.graph);
    } catch (const Error& error) {
      REQUIRE_MESSAGE(error.kind == ErrorKind::kCorrupt, error.message);
      ++refused;
    }
  }
  CHECK(refused > 500);
}
