// Checks of a graph that was not built here (imported.h).
#include "nn/imported.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"

namespace mlx::nn {
namespace {

using graph::Dim;
using graph::Dims;
using graph::Graph;
using kernels::DType;

// The sizes after the batch, and between the batch and the outputs; for tokens the sequence, whatever its symbol.
struct Expected {
  const char* name;
  DType dtype;
  Dims input, output;
};

Expected expected_of(const Graph& graph, const InputSpec& input) {
  switch (input.kind) {
    case InputKind::kImages:
      return {input.name,
              DType::kF32,
              {Dim::of(input.height), Dim::of(input.width), Dim::of(input.channels)},
              {Dim::of(input.outputs)}};
    case InputKind::kFeatures:
      return {input.name, DType::kF32, {Dim::of(input.features)}, {Dim::of(input.outputs)}};
    case InputKind::kTokens:
      break;
  }
  const graph::ValueId ids = graph.find("ids");
  const bool two = ids != graph::kNone && graph.value(ids).dims.size() == 2 && graph.value(ids).dims[1].symbol() >= 0;
  const Dim sequence = two ? graph.value(ids).dims[1] : Dim::of(-1);
  // A table may be longer than its vocabulary, so that its size is a round number.
  const Dims* const logits = graph.outputs.size() == 1 ? &graph.value(graph.outputs[0]).dims : nullptr;
  const bool longer =
      logits && !logits->empty() && !logits->back().symbolic() && logits->back().size > input.vocabulary;
  return {"ids", DType::kS32, {sequence}, {sequence, longer ? logits->back() : Dim::of(input.vocabulary)}};
}

std::string text_of(const Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  return fmt::format("'{}' {}{}", value.name, kernels::name_of(value.dtype), graph::to_text(graph, value.dims));
}

// True if the value has this type, and this shape after the batch, whatever symbol that has.
bool has(const graph::Value& value, DType dtype, const Dims& behind_batch) {
  return value.dtype == dtype && value.dims.size() == behind_batch.size() + 1 && value.dims[0].symbol() >= 0 &&
         std::equal(behind_batch.begin(), behind_batch.end(), value.dims.begin() + 1);
}

std::string text_of(const Graph& graph, DType dtype, const Dims& behind_batch) {
  std::string text = fmt::format("{}[batch", kernels::name_of(dtype));
  for (const Dim& dim : behind_batch) text += "," + (dim == Dim::of(-1) ? "sequence" : graph::to_text(graph, dim));
  return text + "]";
}

void check_fits(const Graph& graph, const InputSpec& input) {
  const Expected expected = expected_of(graph, input);
  const bool one_input = graph.inputs.size() == 1 && graph.value(graph.inputs[0]).name == expected.name;
  if (!one_input || !has(graph.value(graph.inputs[0]), expected.dtype, expected.input)) {
    fail(ErrorKind::kUsage, "the graph takes {}, the dataset gives '{}' {}",
         graph.inputs.empty() ? "nothing" : text_of(graph, graph.inputs[0]), expected.name,
         text_of(graph, expected.dtype, expected.input));
  }
  const bool one_output = graph.outputs.size() == 1;
  if (!one_output || !has(graph.value(graph.outputs[0]), DType::kF32, expected.output) ||
      !(graph.value(graph.outputs[0]).dims[0] == graph.value(graph.inputs[0]).dims[0])) {
    fail(ErrorKind::kUsage, "the graph gives {}, the dataset wants {}",
         one_output ? text_of(graph, graph.outputs[0]) : fmt::format("{} outputs", graph.outputs.size()),
         text_of(graph, DType::kF32, expected.output));
  }
}

// The input that the model itself declares.
InputSpec input_of(const Model& model) {
  if (model.graph.outputs.empty()) fail(ErrorKind::kUsage, "the graph has no output");
  const Dims& output = model.graph.value(model.graph.outputs[0]).dims;
  const std::int64_t width = output.empty() || output.back().symbolic() ? 0 : output.back().size;
  const data::Preprocessing& p = model.preprocessing;
  if (p.rows) return InputSpec::rows(p.rows->width(), width);
  if (p.channels > 0) return InputSpec::images(p.height, p.width, p.channels, width);
  if (!architecture_of(model).empty()) return InputSpec::tokens(width);  // its tokenizer may be smaller, or absent
  if (p.tokenizer) return InputSpec::tokens(p.tokenizer->size());
  throw Error(ErrorKind::kUsage, "it takes neither images nor rows nor text",
              "the one input is \"images\" or \"features\", with its preprocessing, or \"ids\", with a tokenizer.json");
}

constexpr const char* kSeePage = "`mlx help format-graph` lists the operations and their attributes";

// What a reader of stored models lets pass, but hides a mistake in a graph from outside.
void check_nodes(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  for (const graph::Node& node : graph.nodes) {
    if (!names.insert(node.name).second)
      throw Error(ErrorKind::kUsage, fmt::format("two nodes have the name '{}'", node.name),
                  "names of nodes are unique");
    if (const std::string key = graph::unread_attribute(node); !key.empty()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("node '{}': {} has no attribute '{}'", node.name, kernels::name_of(node.op), key),
                  kSeePage);
    }
  }
}

template <typename Index>
void check_indices(const graph::Node& node, const std::string& name, ByteView bytes, std::int64_t least,
                   std::int64_t end) {
  for (std::size_t at = 0; at + sizeof(Index) <= bytes.size(); at += sizeof(Index)) {
    Index value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (value >= least && value < end) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("node '{}': index {} in '{}' is outside {} to {}", node.name, value, name, least, end - 1),
                "indices that the graph itself holds must be in range; others read zeros");
  }
}

// Indices that come with the graph are in range. The kernels check all others: one outside reads zeros.
void check_constant_indices(const Model& model) {
  for (const graph::Node& node : model.graph.nodes) {
    const bool gathers = node.op == kernels::Op::kGather;
    if (!gathers && node.op != kernels::Op::kEmbedding) continue;
    const graph::Value& indices = model.graph.value(node.inputs[gathers ? 1 : 0]);
    const graph::Value& source = model.graph.value(node.inputs[gathers ? 0 : 1]);
    const Dim count = source.dims[gathers ? static_cast<std::size_t>(node.attrs.axis) : 0];
    if (!graph::outlives_step(indices.role) || count.symbolic()) continue;
    const auto held = model.weights->find(indices.name);
    if (!held) continue;
    const std::int64_t least = gathers ? -count.size : 0;
    if (indices.dtype == DType::kI64)
      check_indices<std::int64_t>(node, indices.name, held->data(), least, count.size);
    else
      check_indices<std::int32_t>(node, indices.name, held->data(), least, count.size);
  }
}

}  // namespace

Built built_from(graph::Graph graph, const InputSpec& input, std::int64_t context) {
  try {
    graph::validate(graph);
  } catch (const Error& error) {
    fail(ErrorKind::kUsage, "the graph is not valid: {}", error.message);
  }
  check_fits(graph, input);
  Json config{{"family", kImported}};
  if (input.kind == InputKind::kTokens) config["context"] = context;
  Built built;
  built.family = kImported;
  built.config = canonical(config);
  built.graph = std::move(graph);
  built.context = context;
  return built;
}

Model imported(Model model) {
  if (model.precision != "f32") fail(ErrorKind::kUsage, "it is {}, expected f32", model.precision);
  const InputSpec input = input_of(model);
  std::int64_t context = 0;
  if (input.kind == InputKind::kTokens) {
    context = json_int(parse_json(model.config, "the model's config"), "context", "the model's config");
    if (context < 1 || context > kLongestContext)
      fail(ErrorKind::kUsage, "the model's config: 'context': expected 1 to {}, got {}", kLongestContext, context);
  }
  check_nodes(model.graph);
  check_constant_indices(model);
  (void)graph::to_inference(model.graph);  // refuses what changes weights
  graph::WithWeights raised = graph::raise(model.graph, *model.weights);
  Built built = built_from(std::move(raised.graph), input, context);
  model.graph = std::move(built.graph);
  model.weights = std::move(raised.weights);
  model.config = std::move(built.config);
  return model;
}

}  // namespace mlx::nn
