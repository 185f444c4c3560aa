// A model: its forward graph, its weights, and what is needed to use it. Stored as a version of model.json
// (mlx-format-model(5)), weights.safetensors, and for language models tokenizer.json. Nothing in it depends on time,
// run or place: the same training gives the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "data/preprocessing.h"
#include "graph/graph.h"
#include "graph/weights.h"
#include "store/pack/store.h"

namespace mlx::nn {

struct Model {
  std::string family;  // "cnn", "mlp", "mobilenet_v2", "resnet", "gpt2", "llama", "imported"
  std::string config;  // canonical JSON of [model]
  graph::Graph graph;  // forward, trainable form; of a quantized model: its inference form
  // Parameters, running statistics, constants: loaded once and shared by all who use the model. Null in a description.
  std::shared_ptr<const graph::Weights> weights;
  data::Preprocessing preprocessing;  // with the tokenizer of a language model
  std::vector<std::string> labels;
  std::string data;                 // canonical JSON: dataset digest and the splits used
  std::string precision = "f32";    // "f32", "int8"
  std::string numerics = "native";  // how it was trained: "native", "portable"
};

// Files of a version. Deterministic bytes.
Json model_json(const Model& model);
// `base` is the version that it was fine-tuned from: what is stored of the weights may be how they differ.
store::ManifestSummary store_model(store::Store& store, const Model& model, const std::optional<Digest>& base = {});
Model load_model(const store::Store& store, const Digest& manifest);  // kCorrupt naming file and what is wrong
// The same of a folder that holds a model's files, as `mlx checkout --to` writes them, and the digest of a version that
// has these files. The weights are mapped: the file must not be changed in place while the model is in use (a new one
// may be renamed over it). kNotFound if there is no model.json.
struct FolderModel {
  Model model;
  Digest digest;
};
FolderModel load_model_folder(const std::string& folder);
bool is_model_folder(const std::string& folder);
// load_model without the weights.
Model load_description(const store::Store& store, const Digest& manifest);
// Only model.json, for listings.
Json load_model_json(const store::Store& store, const Digest& manifest);

// Tensors as a safetensors file and back.
Bytes encode_tensors(const graph::Tensors& tensors);
// The same file a piece at a time, without a copy of it: each call fills up to `count` bytes, 0 at the end. The tensors
// are written in order of these names and outlive what is returned.
using TensorRefs = std::map<std::string, graph::TensorView>;
TensorRefs refs_to(const graph::Weights& weights);
struct TensorStream {
  std::uint64_t size = 0;
  std::function<std::size_t(void*, std::size_t)> read;
};
TensorStream stream_tensors(const TensorRefs& tensors);
graph::Tensors decode_tensors(ByteView bytes, std::string_view what);  // kCorrupt
// The same without copies: views into `bytes`.
TensorRefs view_tensors(ByteView bytes, std::string_view what);

}  // namespace mlx::nn
