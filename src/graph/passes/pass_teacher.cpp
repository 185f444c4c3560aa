// A frozen teacher beside the model that learns from it (Hinton et al. 2015): one graph with both, which share inputs.

#include <algorithm>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"

namespace mlx::graph {
namespace {

// The student's value for each of the teacher's.
struct Beside {
  Graph graph;
  const Graph& teacher;
  std::vector<ValueId> now;

  void add_value(std::size_t i) {
    Value value = teacher.values[i];
    if (value.role == Role::kInput) {
      const ValueId same = graph.find(value.name);
      const bool fits = same != kNone && graph.value(same).role == Role::kInput &&
                        graph.value(same).dtype == value.dtype && graph.value(same).dims == value.dims;
      if (!fits)
        fail(ErrorKind::kUsage, "the teacher takes '{}' {}{}, the model does not", value.name,
             kernels::name_of(value.dtype), to_text(teacher, value.dims));
      now[i] = same;
      return;
    }
    value.name = kTeacher + value.name;
    if (outlives_step(value.role)) value.role = Role::kConstant;
    now[i] = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(std::move(value));
  }

  void add_node(Node node) {
    node.name = kTeacher + node.name;
    for (std::vector<ValueId>* ids : {&node.inputs, &node.outputs})
      for (ValueId& id : *ids)
        if (id != kNone) id = now[index(id)];
    graph.nodes.push_back(std::move(node));
  }
};

}  // namespace

Graph with_teacher(const Graph& student, const Graph& teacher) {
  if (student.symbols != teacher.symbols)
    fail(ErrorKind::kUsage, "the teacher's sizes have other names than the model's");
  Beside both{student, teacher, std::vector<ValueId>(teacher.values.size(), kNone)};
  for (std::size_t i = 0; i < teacher.values.size(); ++i) both.add_value(i);
  for (const Node& node : teacher.nodes) both.add_node(node);
  const Dims &of_student = student.value(student.outputs.at(0)).dims,
             &of_teacher = teacher.value(teacher.outputs.at(0)).dims;
  if (of_student != of_teacher)
    fail(ErrorKind::kUsage, "the teacher gives {}, the model {}", to_text(teacher, of_teacher),
         to_text(student, of_student));
  both.graph.outputs = {student.outputs[0], both.now[index(teacher.outputs[0])]};
  return std::move(both.graph);
}

}  // namespace mlx::graph
