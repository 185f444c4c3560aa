// The table of operations: the rows of kernels/op_list.h, completed by the families in src/graph/ops/.

#include "graph/op_def.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "graph/rule.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kOps = static_cast<std::size_t>(Op::kCount);

// The row of `op` among its family's.
OpDef row_of(Op op, const std::vector<OpDef>& family) {
  const auto found = std::ranges::find(family, op, &OpDef::op);
  CHECK(found != family.end() && found->infer != nullptr);
  OpDef def = *found;
  def.required_inputs = kernels::row_of(op).required_inputs;
  def.max_inputs = kernels::row_of(op).max_inputs;
  def.view = kernels::row_of(op).view;
  def.collective = kernels::row_of(op).collective;
  return def;
}

std::array<OpDef, kOps> make_table() {
  return {
#define MLX_OP(op, name, family, ...) row_of(Op::op, family##_ops()),
#include "kernels/op_list.h"
  };
}

}  // namespace

const OpDef& op_def(Op op) {
  static const std::array<OpDef, kOps> table = make_table();
  CHECK(static_cast<std::size_t>(op) < kOps);
  return table[static_cast<std::size_t>(op)];
}

bool adds(const Node& node) {
  const std::size_t at = op_def(node.op).addend;
  return at > 0 && at < node.inputs.size() && node.inputs[at] != kNone;
}

Op op_named(std::string_view name) {
  for (std::size_t i = 0; i < kOps; ++i) {
    if (name == kernels::name_of(static_cast<Op>(i))) return static_cast<Op>(i);
  }
  return Op::kCount;
}

Cost cost_of(const Node& node, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  const OpDef& def = op_def(node.op);
  return def.cost ? def.cost(node, inputs, outputs) : with_bytes(0, inputs, outputs);
}

}  // namespace mlx::graph
