// Checks of a graph that was not built here (imported.h).
#include "nn/imported.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace mlx::nn {
namespace {

using graph::Dim;
using graph::Dims;
using graph::Graph;
using kernels::DType;

struct Expected {
  const char* name;
  Dims behind_batch;
};

Expected expected_of(const InputSpec& input) {
  if (input.kind == InputKind::kFeatures) return {"features", {Dim::of(input.features)}};
  return {"images", {Dim::of(input.height), Dim::of(input.width), Dim::of(input.channels)}};
}

std::string text_of(const Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  return fmt::format("'{}' {}{}", value.name, kernels::name_of(value.dtype), graph::to_text(graph, value.dims));
}

bool has_shape(const graph::Value& value, const Dims& behind_batch) {
  return value.dtype == DType::kF32 && value.dims.size() == behind_batch.size() + 1 && value.dims[0].symbol() >= 0 &&
         std::equal(behind_batch.begin(), behind_batch.end(), value.dims.begin() + 1);
}

void check_fits(const Graph& graph, const InputSpec& input) {
  const Expected expected = expected_of(input);
  const auto shape = [&](const Dims& dims) { return "[batch," + graph::to_text(graph, dims).substr(1); };
  const bool one_input = graph.inputs.size() == 1 && graph.value(graph.inputs[0]).name == expected.name;
  if (!one_input || !has_shape(graph.value(graph.inputs[0]), expected.behind_batch)) {
    fail(ErrorKind::kUsage, "the graph takes {}, the dataset gives '{}' f32{}",
         graph.inputs.empty() ? "nothing" : text_of(graph, graph.inputs[0]), expected.name,
         shape(expected.behind_batch));
  }
  const Dims outputs{Dim::of(input.outputs)};
  const bool one_output = graph.outputs.size() == 1;
  if (!one_output || !has_shape(graph.value(graph.outputs[0]), outputs) ||
      !(graph.value(graph.outputs[0]).dims[0] == graph.value(graph.inputs[0]).dims[0])) {
    fail(ErrorKind::kUsage, "the graph gives {}, the dataset wants f32{}",
         one_output ? text_of(graph, graph.outputs[0]) : fmt::format("{} outputs", graph.outputs.size()),
         shape(outputs));
  }
}

}  // namespace

Built built_from(graph::Graph graph, const InputSpec& input) {
  if (input.kind == InputKind::kTokens)
    fail(ErrorKind::kUsage, "the family \"{}\" takes images or rows of features, the dataset holds text", kImported);
  try {
    graph::validate(graph);
  } catch (const Error& error) {
    fail(ErrorKind::kUsage, "{}", error.message);
  }
  check_fits(graph, input);
  Built built;
  built.family = kImported;
  built.config = canonical(Json{{"family", kImported}});
  built.graph = std::move(graph);
  return built;
}

}  // namespace mlx::nn
