// How the weights of a linear layer are stored once they are quantized: as integers in groups (rounding.h), or in
// blocks as GGUF has them (block_rounding.h). Used by group_weights.cpp, and by what rounds on data.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/parallel.h"
#include "compress/rounding.h"
#include "kernels/block_type.h"

namespace mlx::compress {

struct WeightType {
  Groups groups;
  const kernels::BlockType* blocks = nullptr;  // null: in groups

  // What the inputs of a layer must be a multiple of, for fitting().
  std::int64_t unit() const { return blocks ? kernels::kSmallBlock : groups.size; }
};
std::string name_of(const WeightType& type);  // "int4", "q4_k"
std::string name_of(const SharedLayer& layer);

// What a layer with so many inputs gets: if they are not whole blocks of 256, a type of about as many bits in groups or
// blocks of 32, as llama.cpp has it. nullopt if they are no multiple of unit().
std::optional<WeightType> fitting(const WeightType& type, std::int64_t inputs);

// round_layer() or round_blocks(), as the type is.
RoundedLayer round_as(const WeightType& type, const graph::Weight& from, const std::string& name, Pool& pool,
                      std::span<const float> importance = {});

}  // namespace mlx::compress
