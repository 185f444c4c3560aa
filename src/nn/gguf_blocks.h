// The types of tensors in GGUF files: blocks of numbers that share a scale, as llama.cpp writes them (ggml-common.h and
// ggml-quants.c of the ggml project describe them). Used by gguf_model.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "kernels/kernel.h"

namespace mlx::nn {

// What a type becomes without a loss: itself, in floats or in blocks (kernels/block_type.h); or in linear layers
// integers of four or eight bits in groups of 32 with a scale in f16 each (kernels/op_list.h, kLinearGroups).
// kExpanded: what has no form in common becomes numbers of f32.
enum class GgufForm : std::uint8_t { kFloat, kBlocks, kFour, kEight, kExpanded };

struct GgufType {
  std::uint32_t number;  // ggml_type
  const char* name;      // "Q4_0"
  GgufForm form;
  kernels::DType dtype;             // of kFloat
  std::int64_t elements, bytes;     // of a block
  std::int64_t scale = 0, low = 0;  // where its numbers in f16 stand; low 0: there is one
};
// Null for one that is not supported.
const GgufType* find_gguf_type(std::uint32_t number);
std::string gguf_type_name(std::uint32_t number);  // also of others, "type 99" of unknown ones
std::string supported_gguf_types();

// `blocks`, whole ones, as numbers.
void expand_blocks(const GgufType& type, ByteView blocks, float* to);
// The integers of one block in Q4_0 or Q8_0, and the bits of its scale.
std::uint16_t integers_of_block(const GgufType& type, const std::uint8_t* block, std::int8_t* to);
// Whether no scale is NaN or infinite.
bool finite_scales(const GgufType& type, ByteView blocks);

}  // namespace mlx::nn
