// Shapes for people.

#include <string>

#include "graph/graph.h"

namespace mlx::graph {

std::string to_text(const Graph& graph, const Dims& dims) {
  std::string text = "[";
  for (const Dim& dim : dims) {
    if (text.size() > 1) text += ',';
    text += to_text(graph, dim);
  }
  return text + "]";
}

std::string to_text(const Graph& graph, const Dim& dim) {
  if (!dim.symbolic()) return std::to_string(dim.size);
  std::string text;
  for (const Dim::Term& term : dim.terms) {
    if (term.factor == 0) break;
    if (term.factor == -1) text += '-';
    if (term.factor > 0 && !text.empty()) text += '+';
    const bool shown = term.factor != 1 && term.factor != -1;
    if (shown) text += std::to_string(term.factor);
    bool first = !shown;
    for (const std::int16_t symbol : term.symbols) {
      if (symbol < 0) break;
      if (!first) text += '*';
      text += graph.symbols.at(static_cast<std::size_t>(symbol));
      first = false;
    }
  }
  if (dim.size > 0) text += '+';
  if (dim.size != 0) text += std::to_string(dim.size);
  return text;
}

}  // namespace mlx::graph
