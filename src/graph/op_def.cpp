// The table of operations: rows come from the families in src/graph/ops/.

#include "graph/op_def.h"

#include <array>
#include <string_view>

#include "base/error.h"
#include "graph/ops/rule.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kOps = static_cast<std::size_t>(Op::kCount);

std::array<OpDef, kOps> make_table() {
  std::array<OpDef, kOps> table;
  for (auto* family : {linear_ops, conv_ops, norm_ops, pointwise_ops, pool_ops, dropout_ops, loss_ops, embedding_ops,
                       attention_ops, rope_ops, quantize_ops, cast_ops, optimizer_ops, reshape_ops, augment_ops}) {
    for (const OpDef& def : family()) table[static_cast<std::size_t>(def.op)] = def;
  }
  for (const OpDef& def : table) CHECK(def.infer != nullptr);
  return table;
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
