// Products of stacks of matrices; the stacks' leading dimensions broadcast as in NumPy.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

Ids infer_matmul(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kMatmul, inputs, name);
  rule.require_f32();
  Dims a = rule.dims(0), b = rule.dims(1);
  rule.require(a.size() >= 2 && b.size() >= 2, "the inputs must have at least two dimensions");
  // Removes the matrix's dims from the end. If it is transposed, its rows are the last dimension.
  const auto matrix = [](Dims& dims, bool turned) {
    Dim last = dims.back(), before = dims[dims.size() - 2];
    dims.resize(dims.size() - 2);
    return turned ? std::pair{last, before} : std::pair{before, last};
  };
  const auto [rows, terms] = matrix(a, attrs.transpose_a);
  const auto [other_terms, columns] = matrix(b, attrs.transpose_b);
  rule.require(terms == other_terms, "the matrices do not fit each other");
  Dims y = broadcast(rule, a, b);
  y.insert(y.end(), {rows, columns});
  return {rule.out({}, DType::kF32, y)};
}

// With the factors A and B as they are multiplied: dA = dY Bᵀ and dB = Aᵀ dY, transposed if a or b is stored
// transposed.
Ids backward_matmul(Graph& graph, const Node& node, const Ids& gradients) {
  const ValueId a = node.inputs[0], b = node.inputs[1], dy = gradients[0];
  const bool turned_a = node.attrs.transpose_a, turned_b = node.attrs.transpose_b;
  const auto product = [&](ValueId x, bool turned_x, ValueId y, bool turned_y, const char* what) {
    Attrs attrs;
    attrs.transpose_a = turned_x, attrs.transpose_b = turned_y;
    return graph.add(Op::kMatmul, attrs, {x, y}, node.name + what)[0];
  };
  const Dims a_dims = graph.value(a).dims, b_dims = graph.value(b).dims;
  const ValueId da =
      turned_a ? product(b, turned_b, dy, true, ".backward_a") : product(dy, false, b, !turned_b, ".backward_a");
  const ValueId db =
      turned_b ? product(dy, true, a, turned_a, ".backward_b") : product(a, !turned_a, dy, false, ".backward_b");
  const ValueId sum_a = sum_to(graph, da, a_dims, node.name + ".backward_sum_a");
  return {sum_a, sum_to(graph, db, b_dims, node.name + ".backward_sum_b")};
}

Cost cost_matmul(const Node& node, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  const kernels::Shape& a = inputs[0];
  const auto terms = static_cast<std::size_t>(a.rank - (node.attrs.transpose_a ? 2 : 1));
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(a.dims[terms]), inputs, outputs);
}

// For either factor: the size that the sums run over, and the other size.
StartValue start_of_factor(const Node& node, std::size_t input, const kernels::Shape& shape) {
  const auto last = static_cast<std::size_t>(shape.rank - 1);
  const auto rows = static_cast<double>(shape.dims[last - 1]), columns = static_cast<double>(shape.dims[last]);
  const bool over_rows = input == 0 ? node.attrs.transpose_a : !node.attrs.transpose_b;
  return over_rows ? StartValue{StartValue::kWeights, rows, columns} : StartValue{StartValue::kWeights, columns, rows};
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {{.op = Op::kMatmul,
           .text = {"a[...,M,K], b[...,K,N] -> y[...,M,N]", "transpose_a transpose_b",
                    "Product of matrices; the leading dimensions broadcast as in NumPy. transpose_a: a is stored as "
                    "[K,M]; transpose_b: b as [N,K]."},
           .infer = infer_matmul,
           .backward = backward_matmul,
           .cost = cost_matmul,
           .start = start_of_factor}};
}

}  // namespace mlx::graph
