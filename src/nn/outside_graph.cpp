#include "nn/outside_graph.h"

#include <utility>

namespace mlx::nn {

using graph::Dim;
using graph::ValueId;

ValueId OutsideBuilder::parameter(const std::string& name, const ParameterSource::Part& from) {
  sources[name] = {{from}};
  graph::Dims dims;
  for (const std::int64_t size : from.shape) dims.push_back(Dim::of(size));
  return net.graph.parameter(name, std::move(dims));
}

ValueId OutsideBuilder::linear(const std::string& name, ValueId x, std::int64_t in, const std::vector<Layer>& layers,
                               bool bias) {
  ParameterSource weights{{}, transposed}, biases;
  std::int64_t out = 0;
  for (const Layer& layer : layers) {
    weights.parts.push_back(
        {layer.name + ".weight", transposed ? std::vector{in, layer.out} : std::vector{layer.out, in}});
    biases.parts.push_back({layer.name + ".bias", {layer.out}});
    out += layer.out;
  }
  sources[name + ".weight"] = std::move(weights);
  if (bias) sources[name + ".bias"] = std::move(biases);
  return net.linear(name, x, in, out, bias);
}

}  // namespace mlx::nn
