// Models as versions: two files in a manifest, three with a tokenizer, written the same way every time and read with
// suspicion.

#include "nn/model.h"

#include "base/error.h"
#include "base/json.h"
#include "nn/model_json.h"

namespace mlx::nn {
namespace {

constexpr std::uint64_t kLongestDescription = 64 << 20;

store::Entry file_of(const store::Store& store, const Digest& manifest, const char* name) {
  const std::optional<store::Entry> entry = store.find(manifest, name);
  if (!entry || entry->mode == store::kModeLink) {
    throw Error(ErrorKind::kCorrupt, fmt::format("version {} has no file {}", manifest.brief(), name),
                "is it a model?");
  }
  return *entry;
}

std::string place(const Digest& manifest, const char* name) {
  return fmt::format("version {}: {}", manifest.brief(), name);
}

// Everything that outlives a step has its tensor, of the graph's dtype and shape, and there are no others.
void check_tensors(const Model& model, const std::string& what) {
  std::size_t expected = 0;
  for (const graph::Value& value : model.graph.values) {
    if (value.role == graph::Role::kActivation || value.role == graph::Role::kInput) continue;
    for (const graph::Dim dim : value.dims) {
      if (dim.symbolic()) fail(ErrorKind::kCorrupt, "{}: '{}' has a symbolic size, weights must not", what, value.name);
    }
    const auto found = model.tensors.find(value.name);
    if (found == model.tensors.end()) fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is missing", what, value.name);
    const kernels::Shape shape = graph::concrete(value, {});
    if (!(found->second.shape == shape)) {
      fail(ErrorKind::kCorrupt, "{}: '{}' does not have the graph's dtype and shape, {} {}", what, value.name,
           kernels::name_of(value.dtype), graph::to_text(model.graph, value.dims));
    }
    ++expected;
  }
  if (model.tensors.size() != expected) {
    for (const auto& [name, tensor] : model.tensors) {
      const graph::ValueId id = model.graph.find(name);
      const bool held = id != graph::kNone && model.graph.value(id).role != graph::Role::kActivation &&
                        model.graph.value(id).role != graph::Role::kInput;
      if (!held) fail(ErrorKind::kCorrupt, "{}: the graph has no tensor '{}'", what, name);
    }
  }
}

// Where the version has one; it has to fit the logits.
std::optional<data::Tokenizer> load_tokenizer(const store::Store& store, const Digest& manifest,
                                              const graph::Graph& graph) {
  const std::optional<store::Entry> entry = store.find(manifest, kTokenizerFile);
  if (!entry || entry->mode == store::kModeLink) return std::nullopt;
  const std::string what = place(manifest, kTokenizerFile);
  if (entry->size > kLongestDescription)
    fail(ErrorKind::kCorrupt, "{}: {} are more than a tokenizer may have", what, format_bytes(entry->size));
  const Bytes text = store.read_blob(entry->content);
  data::Tokenizer tokenizer = data::Tokenizer::from_json(parse_json(as_text(text), what), what);
  const graph::Dims& logits = graph.value(graph.outputs.at(0)).dims;
  if (logits.empty() || !(logits.back() == graph::Dim::of(tokenizer.size()))) {
    fail(ErrorKind::kCorrupt, "{}: {} tokens do not match the graph's output {}", what, tokenizer.size(),
         graph::to_text(graph, logits));
  }
  return tokenizer;
}

}  // namespace

store::ManifestSummary store_model(store::Store& store, const Model& model, const std::optional<Digest>& base) {
  const std::string description = canonical(model_json(model));
  const Bytes weights = encode_tensors(model.tensors);
  const std::unique_ptr<store::Batch> batch = store.begin();
  std::vector<store::Entry> entries;
  entries.push_back({kModelFile, store::kModeFile, description.size(), batch->add_blob(as_bytes(description))});
  std::optional<Digest> before;
  if (base) before = file_of(store, *base, kWeightsFile).content;
  entries.push_back(
      {kWeightsFile, store::kModeFile, weights.size(), batch->add_blob(weights, before ? &*before : nullptr)});
  if (model.tokenizer) {
    const std::string text = canonical(model.tokenizer->to_json());
    entries.push_back({kTokenizerFile, store::kModeFile, text.size(), batch->add_blob(as_bytes(text))});
  }
  const store::ManifestSummary summary = batch->add_manifest(std::move(entries));
  batch->commit();
  return summary;
}

Json load_model_json(const store::Store& store, const Digest& manifest) {
  const store::Entry entry = file_of(store, manifest, kModelFile);
  const std::string what = place(manifest, kModelFile);
  if (entry.size > kLongestDescription)
    fail(ErrorKind::kCorrupt, "{}: {} are more than a description may have", what, format_bytes(entry.size));
  const Bytes text = store.read_blob(entry.content);
  Json json = parse_json(as_text(text), what);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, json.type_name());
  check_model_format(json, what);
  return json;
}

Model load_description(const store::Store& store, const Digest& manifest) {
  Model model = model_from_json(load_model_json(store, manifest), place(manifest, kModelFile));
  model.tokenizer = load_tokenizer(store, manifest, model.graph);
  return model;
}

Model load_model(const store::Store& store, const Digest& manifest) {
  Model model = load_description(store, manifest);
  const Bytes weights = store.read_blob(file_of(store, manifest, kWeightsFile).content);
  const std::string what = place(manifest, kWeightsFile);
  model.tensors = decode_tensors(weights, what);
  check_tensors(model, what);
  return model;
}

}  // namespace mlx::nn
