// Prepares a graph for concrete sizes.

#include "graph/session/bucket.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/table.h"

namespace mlx::graph {
namespace {

kernels::Shape shape_of(const Bucket& bucket, ValueId id) {
  if (id != kNone) return bucket.shapes[static_cast<std::size_t>(id)];
  kernels::Shape absent;
  absent.rank = -1;
  return absent;
}

Step make_step(const Graph& graph, const Bucket& bucket, int at, const std::vector<const void*>& constants,
               const BucketOptions& options) {
  const Node& node = graph.nodes[static_cast<std::size_t>(at)];
  Step step;
  step.node = at;
  step.inputs = node.inputs;
  step.inputs.resize(static_cast<std::size_t>(op_def(node.op).max_inputs), kNone);
  step.outputs = node.outputs;
  step.input_pointers.resize(step.inputs.size());
  step.output_pointers.resize(step.outputs.size());

  std::vector<kernels::Shape> inputs, outputs;
  std::vector<const void*> known;
  std::vector<kernels::DType> stored;
  for (const ValueId id : step.inputs) {
    inputs.push_back(shape_of(bucket, id));
    known.push_back(id == kNone ? nullptr : constants[static_cast<std::size_t>(id)]);
    stored.push_back(id == kNone || options.stored.empty() ? inputs.back().dtype : options.stored[index(id)]);
  }
  for (const ValueId id : step.outputs) outputs.push_back(shape_of(bucket, id));
  step.cost = cost_of(node, inputs, outputs);
  step.collective = op_def(node.op).collective;
  if (step.collective) return step;
  kernels::Problem problem;
  problem.op = node.op;
  problem.attrs = node.attrs;
  problem.input_count = static_cast<int>(inputs.size());
  problem.output_count = static_cast<int>(outputs.size());
  problem.inputs = inputs.data();
  problem.outputs = outputs.data();
  problem.constants = known.data();
  problem.stored = stored.data();
  try {
    step.kernel = kernels::prepare(problem, options.backend);
  } catch (const Error& error) {
    throw Error(error.kind, fmt::format("{}: {}", node.name, error.message), error.hint);
  }
  return step;
}

// True if `of` shares no byte with any of `many`, by their present pointers.
bool apart(const Bucket& bucket, const void* of, ValueId id, const std::vector<ValueId>& many,
           const auto& many_pointers) {
  const auto* begin = static_cast<const std::uint8_t*>(of);
  for (std::size_t i = 0; i < many.size(); ++i) {
    if (many[i] == kNone) continue;
    const auto* other = static_cast<const std::uint8_t*>(many_pointers[i]);
    if (begin < other + shape_of(bucket, many[i]).bytes() && other < begin + shape_of(bucket, id).bytes()) return false;
  }
  return true;
}

bool independent(const Bucket& bucket, const Step& a, const Step& b) {
  const auto writes_apart = [&](const Step& writer, const Step& other) {
    for (std::size_t i = 0; i < writer.outputs.size(); ++i) {
      const ValueId id = writer.outputs[i];
      if (id == kNone) continue;
      const void* at = writer.output_pointers[i];
      if (!apart(bucket, at, id, other.inputs, other.input_pointers) ||
          !apart(bucket, at, id, other.outputs, other.output_pointers))
        return false;
    }
    return true;
  };
  return writes_apart(a, b) && writes_apart(b, a);
}

}  // namespace

std::size_t steps_together(const Bucket& bucket, std::size_t first, std::size_t last) {
  const auto run_many = bucket.steps[first].kernel.plan().run_many;
  std::size_t count = 1;
  for (; run_many && first + count < bucket.steps.size(); ++count) {
    const Step& next = bucket.steps[first + count];
    if (next.kernel.plan().run_many != run_many || static_cast<std::size_t>(next.node) >= last) break;
    const auto joins = [&](const Step& step) { return independent(bucket, step, next); };
    if (!std::all_of(&bucket.steps[first], &bucket.steps[first + count], joins)) break;
  }
  return count;
}

Bucket make_bucket(const Graph& graph, const std::vector<std::int64_t>& symbol_sizes,
                   const std::vector<const void*>& constants, const BucketOptions& options) {
  Bucket bucket;
  bucket.symbol_sizes = symbol_sizes;
  std::vector<std::size_t> bytes;
  for (const Value& value : graph.values) {
    bucket.shapes.push_back(concrete(value, symbol_sizes));
    bytes.push_back(bucket.shapes.back().bytes());
  }
  std::vector<std::size_t> workspace(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (op_def(graph.nodes[i].op).view) continue;
    bucket.steps.push_back(make_step(graph, bucket, static_cast<int>(i), constants, options));
    workspace[i] = bucket.steps.back().kernel.plan().workspace_bytes;
    bucket.visits_host = bucket.visits_host || bucket.steps.back().kernel.plan().visits_host;
  }
  bucket.plan = plan_memory(graph, bytes, workspace, options.reuse_memory, options.kept);
  return bucket;
}

}  // namespace mlx::graph
