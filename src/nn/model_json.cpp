// Writes and reads model.json. Nothing that is read is trusted: the graph's layer validates the graph, and signature,
// preprocessing and labels must agree with it.

#include "nn/model_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "data/kind.h"
#include "kernels/block_type.h"
#include "nn/family.h"

namespace mlx::nn {
namespace {

using graph::Graph;
using graph::ValueId;
using kernels::DType;

constexpr const char* kFormat = "mlx-model";
constexpr std::int64_t kVersion = 2, kOldest = 1;
// Those of integers in groups or blocks, the fewest bits first.
constexpr std::array kIntegers{"q2_k", "q3_k", "int4", "q4_k", "q4_1", "q5_0", "q5_k", "q5_1", "q6_k", "int8"};
constexpr const char* kPrecisions[] = {"f32",  "int8", "int4", "q2_k", "q3_k", "q4_k",
                                       "q5_k", "q6_k", "q4_1", "q5_0", "q5_1"};
constexpr const char* kNumerics[] = {"native", "portable"};

Json tensors_to_json(const Graph& graph, const std::vector<ValueId>& ids) {
  Json out = Json::array();
  for (const ValueId id : ids) {
    const graph::Value& value = graph.value(id);
    Json shape = Json::array();
    for (const graph::Dim& dim : value.dims) shape.push_back(dim.symbolic() ? -1 : dim.size);
    out.push_back({{"name", value.name}, {"datatype", datatype_name(value.dtype)}, {"shape", shape}});
  }
  return out;
}

Json signature(const Graph& graph) {
  return {{"inputs", tensors_to_json(graph, graph.inputs)}, {"outputs", tensors_to_json(graph, graph.outputs)}};
}

Json floats_to_json(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float value : values) out.push_back(double{value});
  return out;
}

Json preprocessing_to_json(const data::Preprocessing& preprocessing) {
  if (preprocessing.rows) return data::to_json(*preprocessing.rows);
  if (preprocessing.channels == 0) return nullptr;
  Json out = {{"height", preprocessing.height},
              {"width", preprocessing.width},
              {"channels", preprocessing.channels},
              {"mean", floats_to_json(preprocessing.normalization.mean)},
              {"std", floats_to_json(preprocessing.normalization.std)}};
  if (preprocessing.fit) out["resize"] = data::name_of(*preprocessing.fit);
  return out;
}

std::vector<float> floats_from_json(const Json& object, const char* key, std::size_t count, const std::string& what) {
  const Json& array = json_array(object, key, what);
  if (array.size() != count)
    fail(ErrorKind::kCorrupt, "{}: '{}': expected {} numbers, one per channel, got {}", what, key, count, array.size());
  std::vector<float> out;
  for (const Json& item : array) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (!item.is_number() || !(std::abs(item.get<double>()) <= kLargest)) {
      fail(ErrorKind::kCorrupt, "{}: '{}': expected numbers that fit f32", what, key);
    }
    out.push_back(static_cast<float>(item.get<double>()));
  }
  return out;
}

template <std::size_t kCount>
std::string word(const Json& json, const char* key, const char* const (&words)[kCount], const std::string& what) {
  const std::string text = json_string(json, key, what);
  for (const char* known : words) {
    if (text == known) return text;
  }
  fail(ErrorKind::kCorrupt, "{}: '{}': unknown word '{}'", what, key, text);
}

bool takes(const Graph& graph, const char* name) {
  const ValueId input = graph.find(name);
  return input != graph::kNone && std::ranges::find(graph.inputs, input) != graph.inputs.end();
}

// Whose examples the graph takes; null for tensors that no dataset has.
const data::Kind* kind_taken(const Graph& graph) {
  const auto all = data::kinds();
  const auto found = std::ranges::find_if(all, [&](const data::Kind* kind) { return takes(graph, kind->input); });
  return found == all.end() ? nullptr : *found;
}

data::Preprocessing rows_from_json(const Json& json, const Graph& graph, const char* name, const std::string& where) {
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", where, json.type_name());
  data::Preprocessing out;
  out.rows = data::schema_from_json(json, where);
  const graph::Value& input = graph.value(graph.find(name));
  if (input.dtype != DType::kF32 || input.dims.size() != 2 || !(input.dims[1] == graph::Dim::of(out.rows->width()))) {
    fail(ErrorKind::kCorrupt, "{}: {} features do not match the graph's input {}", where, out.rows->width(),
         graph::to_text(graph, input.dims));
  }
  const graph::Dims& output = graph.value(graph.outputs.at(0)).dims;
  const auto outputs = static_cast<std::int64_t>(out.rows->outputs().size());
  if (output.empty() || !(output.back() == graph::Dim::of(outputs))) {
    fail(ErrorKind::kCorrupt, "{}: {} outputs do not match the graph's {}", where, outputs,
         graph::to_text(graph, output));
  }
  return out;
}

data::Preprocessing preprocessing_from_json(const Json& json, const Graph& graph, const std::string& what) {
  const std::string where = what + ": preprocessing";
  data::Preprocessing out;
  const data::Kind* const kind = kind_taken(graph);
  const auto found = json.find("preprocessing");
  if (found == json.end()) fail(ErrorKind::kCorrupt, "{}: the key 'preprocessing' is missing", what);
  if (kind && kind->form == data::Form::kFeatures) return rows_from_json(*found, graph, kind->input, where);
  if (!kind || kind->form != data::Form::kImages) {
    if (!found->is_null()) fail(ErrorKind::kCorrupt, "{}: the graph takes no images, expected null", where);
    return out;
  }
  if (!found->is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", where, found->type_name());
  out.height = json_int(*found, "height", where);
  out.width = json_int(*found, "width", where);
  out.channels = json_int(*found, "channels", where);
  const graph::Value& input = graph.value(graph.find(kind->input));
  const graph::Dims expected{graph::Dim::of(out.height), graph::Dim::of(out.width), graph::Dim::of(out.channels)};
  if (input.dtype != DType::kF32 || input.dims.size() != 4 || input.dims[0].symbol() < 0 ||
      !std::equal(expected.begin(), expected.end(), input.dims.begin() + 1)) {
    fail(ErrorKind::kCorrupt, "{}: images of {}x{}x{} do not match the graph's input {}", where, out.height, out.width,
         out.channels, graph::to_text(graph, input.dims));
  }
  const auto channels = static_cast<std::size_t>(out.channels);
  out.normalization.mean = floats_from_json(*found, "mean", channels, where);
  out.normalization.std = floats_from_json(*found, "std", channels, where);
  if (std::ranges::any_of(out.normalization.std, [](float v) { return !(v > 0); })) {
    fail(ErrorKind::kCorrupt, "{}: 'std': expected numbers above 0", where);
  }
  if (found->contains("resize")) {
    out.fit = data::fit_named(json_string(*found, "resize", where));
    if (!out.fit || (out.channels != 1 && (out.channels != 3 || out.takes_sounds()))) {
      fail(ErrorKind::kCorrupt, "{}: 'resize': expected squeeze or crop, for 1 or 3 channels, or spectrogram, for 1",
           where);
    }
  }
  return out;
}

std::vector<std::string> labels_from_json(const Json& json, const Graph& graph, const std::string& what) {
  std::vector<std::string> labels;
  for (const Json& label : json_array(json, "labels", what)) {
    if (!label.is_string())
      fail(ErrorKind::kCorrupt, "{}: 'labels': expected strings, got {}", what, label.type_name());
    labels.push_back(label.get<std::string>());
  }
  if (graph.inputs.empty() || graph.outputs.empty())
    fail(ErrorKind::kCorrupt, "{}: the graph has no input or no output", what);
  const graph::Dims& output = graph.value(graph.outputs[0]).dims;
  const bool fits = !output.empty() && output.back() == graph::Dim::of(static_cast<std::int64_t>(labels.size()));
  if (!labels.empty() && !fits) {
    fail(ErrorKind::kCorrupt, "{}: {} labels do not match the graph's output {}", what, labels.size(),
         graph::to_text(graph, output));
  }
  return labels;
}

// How many bits a type of integers has, as a place among all.
std::size_t rank_of(std::string_view precision) {
  return static_cast<std::size_t>(std::ranges::find(kIntegers, precision) - kIntegers.begin());
}

// The precision of weights in blocks of a type (kernels/block_type.h), of which graphs have no others.
std::string_view name_of_blocks(std::int64_t number) {
  using namespace kernels;
  switch (number) {
    case kQ4_0:
      return "int4";
    case kQ4_1:
      return "q4_1";
    case kQ5_0:
      return "q5_0";
    case kQ5_1:
      return "q5_1";
    case kQ8_0:
      return "int8";
    case kQ2K:
      return "q2_k";
    case kQ3K:
      return "q3_k";
    case kQ4K:
      return "q4_k";
    case kQ5K:
      return "q5_k";
    default:
      return "q6_k";
  }
}

// The types of a node's integers; none for others.
std::vector<std::string_view> integer_types_of(const graph::Graph& graph, const graph::Node& node) {
  if (node.op == graph::Op::kLinearGroups)
    return {graph.value(node.inputs[1]).dtype == graph::DType::kU8 ? "int4" : "int8"};
  std::vector<std::string_view> types;
  if (node.op != graph::Op::kLinearBlocks) return types;
  for (int i = 0; i < node.attrs.blocks.count; ++i)
    types.push_back(name_of_blocks(node.attrs.blocks.at[static_cast<std::size_t>(i)]));
  return types;
}

// What the integers of the graph say. A model may have some of more bits.
void check_precision(const Model& model, const std::string& what) {
  for (const graph::Node& node : model.graph.nodes)
    for (const std::string_view stored : integer_types_of(model.graph, node))
      if (rank_of(model.precision) > rank_of(stored))
        fail(ErrorKind::kCorrupt, "{}: 'precision' is {}, the weights of '{}' are {}", what, model.precision, node.name,
             stored);
}

}  // namespace

const char* datatype_name(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::kF32:
      return "FP32";
    case graph::DType::kBF16:
      return "BF16";
    case graph::DType::kF16:
      return "FP16";
    case graph::DType::kS32:
      return "INT32";
    case graph::DType::kS8:
      return "INT8";
    case graph::DType::kU8:
      return "UINT8";
    case graph::DType::kI64:
      return "INT64";
  }
  return "?";
}

Json model_json(const Model& model) {
  Json out = Json::object();
  out["format"] = kFormat;
  out["version"] = kVersion;
  out["family"] = model.family;
  out["config"] = model.config.empty() ? Json::object() : parse_json(model.config, "the model's config");
  out["graph"] = graph::to_json(model.graph);
  out["signature"] = signature(model.graph);
  out["preprocessing"] = preprocessing_to_json(model.preprocessing);
  out["labels"] = model.labels;
  out["data"] = model.data.empty() ? Json::object() : parse_json(model.data, "the model's data");
  out["precision"] = model.precision;
  if (model.numerics != "native") out["numerics"] = model.numerics;  // older models lack the field
  return out;
}

void check_model_format(const Json& json, const std::string& what) {
  const std::string format = json_string(json, "format", what);
  if (format != kFormat) fail(ErrorKind::kCorrupt, "{}: 'format': expected \"{}\", got \"{}\"", what, kFormat, format);
  const std::int64_t version = json_int(json, "version", what);
  if (version < kOldest || version > kVersion) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: format version {} is not known", what, version),
                "a newer mlx may read it");
  }
}

std::string precision_of(const Graph& graph) {
  std::string_view fewest = "f32";
  for (const graph::Node& node : graph.nodes)
    for (const std::string_view type : integer_types_of(graph, node))
      if (rank_of(type) < rank_of(fewest)) fewest = type;
  return std::string(fewest);
}

Model model_from_json(const Json& json, const std::string& what) {
  check_model_format(json, what);
  Model model;
  model.family = json_string(json, "family", what);
  const std::vector<std::string> known = family_names();
  if (std::ranges::find(known, model.family) == known.end())
    fail(ErrorKind::kCorrupt, "{}: 'family': unknown word '{}'", what, model.family);
  model.precision = word(json, "precision", kPrecisions, what);
  if (json.contains("numerics")) model.numerics = word(json, "numerics", kNumerics, what);
  model.config = canonical(json_object(json, "config", what));
  model.data = canonical(json_object(json, "data", what));
  model.graph = graph::graph_from_json(json_object(json, "graph", what), what + ": graph");
  check_precision(model, what);
  model.labels = labels_from_json(json, model.graph, what);
  model.preprocessing = preprocessing_from_json(json, model.graph, what);
  if (canonical(json_object(json, "signature", what)) != canonical(signature(model.graph))) {
    fail(ErrorKind::kCorrupt, "{}: 'signature' does not match the graph's inputs and outputs", what);
  }
  return model;
}

}  // namespace mlx::nn
