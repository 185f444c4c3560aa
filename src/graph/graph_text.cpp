// Shapes for people.

#include <string>

#include "graph/graph.h"

namespace mlx::graph {

std::string to_text(const Graph& graph, const Dims& dims) {
  std::string text = "[";
  for (const Dim dim : dims) {
    if (text.size() > 1) text += ',';
    text += dim.symbolic() ? graph.symbols.at(static_cast<std::size_t>(dim.symbol)) : std::to_string(dim.size);
  }
  return text + "]";
}

}  // namespace mlx::graph
