// AWQ (Lin et al. 2023, arXiv:2306.00978): inputs of a layer that are large on calibration data get weights that are
// multiplied by a scale, so that rounding loses less of them, and are themselves divided by it. The division is folded
// into what makes them, a norm or the outputs of a linear layer (values, the upper half of a gated unit), so that the
// graph stays the same. Used by layer_by_layer.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compress/products.h"
#include "compress/segments.h"
#include "compress/weight_type.h"

namespace mlx::compress {

// What the division is folded into: the parameters of a norm, or outputs of a layer.
struct Fold {
  graph::ValueId gamma = graph::kNone, beta = graph::kNone;
  std::optional<std::size_t> layer;   // its index in the graph's nodes
  std::vector<std::int64_t> outputs;  // for each input of the group, the output of `layer` that it is made of
};
// nullopt if the input is made by something else, or also read by something else. `layers`: those of the segment.
std::optional<Fold> fold_of(const graph::Graph& graph, const LayerGroup& group, std::span<const std::size_t> layers);

// What calibration data says of the input of a group.
struct InputFacts {
  std::vector<float> importance;  // of each input: about its mean square, never 0
  std::vector<float> sample;      // [rows][inputs], some of what came in
};

// The scale of each input: a power of the root of its importance, the same for all inputs that are made of one output.
// Of nine exponents from 0 to 1 it is the one with the least squared error of the outputs, with inputs rounded as the
// layers round them. Empty if 0 is the best. `weights`, with names: of the group's layers.
struct NamedWeight {
  std::shared_ptr<const graph::Weight> weight;
  std::string name;
};
std::vector<float> awq_scales(const std::vector<NamedWeight>& weights, const Fold& fold, const InputFacts& facts,
                              const WeightType& type, const Engine& engine);

// In f32: w[n][k] · columns[k] / rows[n]; an empty list changes nothing.
std::shared_ptr<const graph::Weight> scaled(const graph::Weight& w, std::span<const float> columns,
                                            std::span<const float> rows, Pool& pool);
// What the same inputs are once they are divided by their scales.
InputFacts divided(const InputFacts& facts, std::span<const float> scales);

}  // namespace mlx::compress
