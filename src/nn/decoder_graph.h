// The graph of an outside decoder, and from which tensors of the outside its parameters are made. Used by
// hugging_face.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "nn/decoder_config.h"

namespace mlx::nn {

// The parts lie one below the other in the parameter, which may end before the last of their rows.
struct ParameterSource {
  struct Part {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  std::vector<Part> parts;
  bool transposed = false;  // the one part is [in, out], the parameter [out, in]
  bool plus_one = false;    // the parameter is in f32, 1 more than its one part
};
struct DecoderGraph {
  graph::Graph graph;
  std::map<std::string, ParameterSource> sources;  // by parameter
};

// `prefix`: what stands before the names of tensors, "model.".
DecoderGraph build_decoder(const DecoderConfig& config, const std::string& prefix);

}  // namespace mlx::nn
