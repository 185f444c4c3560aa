// A model: its forward graph, its weights, and what is needed to use it. A version stores it as model.json
// (mlx-format-model(5)), weights.safetensors, and for language models tokenizer.json. Nothing in these files depends on
// time, run or place: the same training gives the same bytes.
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
  graph::Graph graph;  // forward, trainable form; for a quantized model its inference form
  // Parameters, running statistics, constants: loaded once and shared by all users of the model. Null in a description.
  std::shared_ptr<const graph::Weights> weights;
  data::Preprocessing preprocessing;  // with the tokenizer of a language model
  std::vector<std::string> labels;
  std::string data;                 // canonical JSON: dataset digest and the splits used
  std::string precision = "f32";    // precision_of(), "int8" of a model with ranges of its activations too
  std::string numerics = "native";  // how it was trained: "native", "portable"
  // Files that an outside model came with, by name, as they were: a chat template, a config. No part of what it
  // computes.
  std::map<std::string, std::string> kept{};
};

// The type of weights with the fewest bits: "q2_k", "q3_k", "int4", "q4_k", "q4_1", "q5_0", "q5_k", "q5_1", "q6_k",
// "int8"; "f32" if no layer has integers in groups or blocks.
std::string precision_of(const graph::Graph& graph);

// The files of a version. Their bytes are deterministic.
Json model_json(const Model& model);
// `base` is the version that the model was fine-tuned from; weights may be stored as differences from it.
store::ManifestSummary store_model(store::Store& store, const Model& model, const std::optional<Digest>& base = {});
// The same with tensors that are made while they are stored; `model` has no weights. They may be in half precision
// where the graph has f32.
struct LateTensors;
store::ManifestSummary store_model(store::Store& store, const Model& model, LateTensors weights);
Model load_model(const store::Store& store, const Digest& manifest);  // throws kCorrupt, naming file and fault
// The same for a folder that holds a model's files, as `mlx checkout --to` writes them, and the digest that a version
// with these files has. The weights are mapped: the file must not be changed in place while the model is in use
// (renaming a new one over it is fine). Throws kNotFound if there is no model.json,
// kRefused if one of the files is a symbolic link that leads out of the folder.
struct FolderModel {
  Model model;
  Digest digest;
};
FolderModel load_model_folder(const std::string& folder);
bool is_model_folder(const std::string& folder);
// The same, but weights that are stored in half precision where the graph has f32 stay so: to be rounded, not to run.
Model load_model_as_stored(const store::Store& store, const Digest& manifest);
// The bytes of the weights as they are stored, which is what they take in memory.
std::size_t stored_weight_bytes(const store::Store& store, const Digest& manifest);
// load_model without the weights.
Model load_description(const store::Store& store, const Digest& manifest);
// Weights as the graph has them: those in half precision count as f32 (late weights), the others are shared.
graph::Weights in_f32(const graph::Graph& graph, const graph::Weights& stored);
// The name of the architecture that an outside model had there: "LlamaForCausalLM"; "" for others.
std::string architecture_of(const Model& model);
// Only model.json, for listings.
Json load_model_json(const store::Store& store, const Digest& manifest);

// Tensors as a safetensors file and back.
Bytes encode_tensors(const graph::Tensors& tensors);
// Writes the same file piece by piece, without a copy: each call fills up to `count` bytes, 0 at the end. The tensors
// are written in the order of their names, and must outlive the result.
using TensorRefs = std::map<std::string, graph::TensorView>;
TensorRefs refs_to(const graph::Weights& weights);
struct TensorStream {
  std::uint64_t size = 0;
  std::function<std::size_t(void*, std::size_t)> read;
};
// Tensors that are made when somebody asks for them: those that are never in memory together.
struct LateTensors {
  std::map<std::string, kernels::Shape> shapes;
  std::function<Bytes(const std::string& name)> make;
};
TensorStream stream_tensors(const TensorRefs& tensors, LateTensors late = {});  // makes each once, in their order
graph::Tensors decode_tensors(ByteView bytes, std::string_view what);           // kCorrupt
// The same for a file of `size` bytes that `read(offset, to, count)` reads: its header now, and tensors as they are
// made.
LateTensors late_tensors(std::uint64_t size, std::function<void(std::uint64_t, void*, std::size_t)> read,
                         std::string_view what);
// The same without copies: views into `bytes`.
TensorRefs view_tensors(ByteView bytes, std::string_view what);

}  // namespace mlx::nn
