// The graph of an outside model, and from which tensors of the outside its parameters are made. Used by
// decoder_graph.cpp, encoder_graph.cpp and their readers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "nn/transformer.h"

namespace mlx::nn {

// The parts lie one below the other in the parameter, which may begin after the first and end before the last of their
// rows.
struct ParameterSource {
  struct Part {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  std::vector<Part> parts;
  bool transposed = false;     // the one part is [in, out], the parameter [out, in]
  bool plus_one = false;       // the parameter is in f32, 1 more than its one part
  std::int64_t first_row = 0;  // of the parts, in the parameter
};
struct OutsideGraph {
  graph::Graph graph;
  std::map<std::string, ParameterSource> sources{};  // by parameter
};

// Adds parameters and layers to a graph, and notes their sources.
struct OutsideBuilder {
  Transformer net;
  bool transposed = false;  // all weights of linear layers
  std::map<std::string, ParameterSource> sources{};

  // In the part's own shape.
  graph::ValueId parameter(const std::string& name, const ParameterSource::Part& from);
  // A linear layer of several outside layers with the same input.
  struct Layer {
    std::string name;
    std::int64_t out = 0;
  };
  graph::ValueId linear(const std::string& name, graph::ValueId x, std::int64_t in, const std::vector<Layer>& layers,
                        bool bias);
};

}  // namespace mlx::nn
