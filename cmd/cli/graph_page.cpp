// The part of mlx-format-graph(5) that the operations' rows say: a list of the operations, and one of the attributes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cmd/cli/help.h"
#include "graph/op_def.h"

namespace mlx::cmd {

std::string graph_prose() {
  std::string prose = "\n# OPERATIONS\n";
  for (int i = 0; i < static_cast<int>(graph::Op::kCount); ++i) {
    const graph::OpDef& def = graph::op_def(static_cast<graph::Op>(i));
    const std::string attributes =
        *def.text.attributes ? fmt::format(" Attributes: {}.", def.text.attributes) : std::string();
    prose += fmt::format("- `{}`: {}. {}{}{}\n", kernels::name_of(def.op), def.text.tensors, def.text.purpose,
                         attributes, def.backward || def.loss ? " Has a gradient." : "");
  }
  prose += "\n# ATTRIBUTES\nEach with its default.\n\n";
  for (const graph::AttributeText& attribute : graph::attribute_texts()) {
    prose += fmt::format("- `{}`: {}{}\n", attribute.key, attribute.fallback,
                         attribute.words.empty() ? "" : fmt::format("; one of {}", fmt::join(attribute.words, ", ")));
  }
  return prose;
}

}  // namespace mlx::cmd
