// A language model in the tensors that its architecture has in other programs: layers that are one here are several
// there, and the other way around. Used by what writes models for them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/block_type.h"
#include "nn/decoder_config.h"
#include "nn/model.h"

namespace mlx::convert {

// One tensor there, and the rows of the model's tensor that it is made of.
struct Part {
  std::string name;                 // in a Hugging Face folder: "model.layers.0.self_attn.q_proj.weight"
  std::string parameter;            // the model's: "block0.attention.qkv.weight"
  std::vector<std::int64_t> shape;  // there
  std::shared_ptr<const graph::Weight> weight;
  std::shared_ptr<const graph::Weight> scales{};  // of weights that are integers in groups
  const kernels::BlockType* blocks = nullptr;     // of weights in blocks
  ByteView block_rows{};                          // those of this part
  std::int64_t row = 0;                           // the first one
  bool transposed = false;                        // rows are columns there
  bool plus_one = false;                          // 1 less there

  std::int64_t rows() const { return shape[transposed ? 1 : 0]; }
  std::int64_t width() const { return shape.size() < 2 ? 1 : shape[transposed ? 0 : 1]; }
  bool four_bits() const { return scales && weight->shape().dtype == kernels::DType::kU8; }
  std::int64_t row_bytes() const { return width() / blocks->weights * blocks->bytes; }  // in blocks
  std::int64_t group() const { return width() / scales->shape().dims[0]; }              // inputs that share a scale
  std::uint64_t bytes(kernels::DType as) const {
    return static_cast<std::uint64_t>(rows() * width()) * kernels::size_of(as);
  }
};

struct Decoder {
  nn::DecoderConfig config;
  std::string config_json;  // as it came with the model, or as the same model would have it
  std::vector<Part> parts;
};

// `prefix`: before the names of GPT-2's tensors, "transformer.". `name`: the model's, for messages. `model` has no
// adapters. Throws kUsage if it is no language model, is of an architecture that no other program has, or was quantized
// in another way than in groups; kCorrupt if its graph is not the one of its architecture.
Decoder decoder_of(const nn::Model& model, const std::string& prefix, const std::string& name);

// The type that loses nothing: the stored one, or f32 for integers and blocks. Of what is 1 less there it is `usual`,
// if every number comes back by adding 1 in f32.
kernels::DType own_type(const Part& part, kernels::DType usual);
// The numbers as they lie there, or with a row for each of the model's rows, which `order` may place elsewhere: row i
// becomes row order(i).
Bytes numbers_of(const Part& part, kernels::DType as);
Bytes rows_of(const Part& part, kernels::DType as, const std::function<std::int64_t(std::int64_t)>& order = {});
// A row's integers and the bits of its scales in f16, one for each group. Of a part with scales.
struct GroupedRow {
  std::vector<std::int8_t> integers;
  std::vector<std::uint16_t> scales;
};
GroupedRow grouped_row(const Part& part, std::int64_t row);

}  // namespace mlx::convert
