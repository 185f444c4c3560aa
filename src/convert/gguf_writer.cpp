// Tensors in floating point keep their type but for vectors and learned positions, which llama.cpp wants in F32.

#include "convert/gguf_writer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "convert/gguf_header.h"
#include "convert/gguf_metadata_writer.h"
#include "convert/gguf_tokenizer_writer.h"
#include "nn/finetune.h"
#include "nn/gguf_config.h"

namespace mlx::convert {
namespace {

using kernels::DType;

constexpr std::int64_t kBlock = 32;  // numbers that share a scale there
constexpr std::uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ8_0 = 8, kBF16 = 30;

struct FileTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first
  std::uint32_t type = kF32;
  std::uint64_t bytes = 0;
  std::function<Bytes()> make;
};

// Files of llama have the rows of each head of queries and keys in pairs, one of the first half and one of the second.
std::function<std::int64_t(std::int64_t)> row_order(const Part& part, const nn::DecoderConfig& config) {
  if (nn::gguf_architecture(config.architecture) != std::string_view("llama")) return {};
  const bool queries = part.name.find(".q_proj.") != std::string::npos,
             keys = part.name.find(".k_proj.") != std::string::npos;
  if (!queries && !keys) return {};
  const std::int64_t size = part.rows() / (queries ? config.heads : config.kv_heads);
  return [size](std::int64_t row) {
    const std::int64_t in_head = row % size;
    return row - in_head + 2 * (in_head % (size / 2)) + in_head / (size / 2);
  };
}

// Blocks of 32 integers, each behind its scale; four bits: the first half of a block in the lower halves of bytes.
Bytes blocks_of(const Part& part, const std::function<std::int64_t(std::int64_t)>& order) {
  constexpr std::int64_t kHalf = kBlock / 2;
  constexpr int kOffset = 8;
  const bool four = part.four_bits();
  const std::int64_t block_bytes = 2 + (four ? kHalf : kBlock), blocks = part.width() / kBlock;
  Bytes out(static_cast<std::size_t>(part.rows() * blocks * block_bytes));
  for (std::int64_t row = 0; row < part.rows(); ++row) {
    const GroupedRow grouped = grouped_row(part, row);
    std::uint8_t* to = out.data() + (order ? order(row) : row) * blocks * block_bytes;
    for (std::int64_t block = 0; block < blocks; ++block, to += block_bytes) {
      const std::int8_t* const q = grouped.integers.data() + block * kBlock;
      std::memcpy(to, &grouped.scales[static_cast<std::size_t>(block * kBlock / part.group())], 2);
      if (!four) std::memcpy(to + 2, q, static_cast<std::size_t>(kBlock));
      for (std::int64_t i = 0; four && i < kHalf; ++i)
        to[2 + i] = static_cast<std::uint8_t>((q[i] + kOffset) | (q[i + kHalf] + kOffset) << 4);
    }
  }
  return out;
}

std::uint32_t type_number(DType dtype) {
  return dtype == DType::kF32 ? kF32 : dtype == DType::kF16 ? kF16 : kBF16;
}

FileTensor tensor_of(const Part& part, const nn::DecoderConfig& config, std::optional<DType> wanted) {
  FileTensor out;
  out.name = nn::gguf_tensor_name(part.name, config);
  out.shape = part.shape;
  if (part.transposed) std::ranges::reverse(out.shape);
  const auto order = row_order(part, config);
  if (part.blocks && !wanted) {
    out.type = static_cast<std::uint32_t>(part.blocks->number);
    out.bytes = part.block_rows.size();
    out.make = [part, order] {
      const auto row_bytes = static_cast<std::size_t>(part.row_bytes());
      Bytes bytes(part.block_rows.size());
      for (std::int64_t row = 0; row < part.rows(); ++row)
        std::memcpy(bytes.data() + static_cast<std::size_t>(order ? order(row) : row) * row_bytes,
                    part.block_rows.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes);
      return bytes;
    };
    return out;
  }
  if (part.scales && !wanted) {
    out.type = part.four_bits() ? kQ4_0 : kQ8_0;
    out.make = [part, order] { return blocks_of(part, order); };
    const std::int64_t block = 2 + (part.four_bits() ? kBlock / 2 : kBlock);
    out.bytes = static_cast<std::uint64_t>(part.rows() * part.width() / kBlock * block);
    return out;
  }
  const bool f32 = part.shape.size() < 2 || part.name.ends_with("wpe.weight");
  const DType dtype = f32 ? DType::kF32 : wanted.value_or(own_type(part, DType::kF32));
  Part as_there = part;
  as_there.plus_one = false;  // norms have the 1 in them
  out.type = type_number(dtype);
  out.bytes = part.bytes(dtype);
  out.make = [as_there, dtype, order] { return rows_of(as_there, dtype, order); };
  return out;
}

FileTensor factors_tensor(std::vector<float> factors) {
  Bytes bytes(factors.size() * sizeof(float));
  std::memcpy(bytes.data(), factors.data(), bytes.size());
  const std::uint64_t size = bytes.size();
  return {"rope_freqs.weight", {static_cast<std::int64_t>(factors.size())}, kF32, size, [bytes = std::move(bytes)] {
            return bytes;
          }};
}

bool is_quantized(const FileTensor& tensor) {
  return tensor.type != kF32 && tensor.type != kF16 && tensor.type != kBF16;
}

// The type of the largest tensor, of those with integers if there are any, in llama.cpp's numbers of kinds of files.
std::uint32_t file_kind(const std::vector<FileTensor>& tensors) {
  const bool quantized = std::ranges::any_of(tensors, is_quantized);
  std::uint64_t most = 0;
  std::uint32_t type = kF32;
  for (const FileTensor& tensor : tensors)
    if (tensor.bytes > most && (!quantized || is_quantized(tensor))) most = tensor.bytes, type = tensor.type;
  constexpr std::uint32_t kKindQ8_0 = 7, kKindQ5_0 = 8, kKindQ5_1 = 9, kKindQ2_K = 10, kKindQ3_K = 12, kKindQ4_K = 15,
                          kKindQ5_K = 17, kKindQ6_K = 18, kKindBF16 = 32;
  switch (type) {
    case kQ8_0:
      return kKindQ8_0;
    case kernels::kQ5_0:
      return kKindQ5_0;
    case kernels::kQ5_1:
      return kKindQ5_1;
    case kernels::kQ2K:
      return kKindQ2_K;
    case kernels::kQ3K:
      return kKindQ3_K;
    case kernels::kQ4K:
      return kKindQ4_K;
    case kernels::kQ5K:
      return kKindQ5_K;
    case kernels::kQ6K:
      return kKindQ6_K;
    case kBF16:
      return kKindBF16;
    default:
      return type;
  }
}

FilePiece padded_piece(FileTensor tensor) {
  const std::uint64_t size = GgufHeader::padded(tensor.bytes);
  return {size, [size, make = std::move(tensor.make)] {
            Bytes bytes = make();
            bytes.resize(size);
            return bytes;
          }};
}

}  // namespace

WrittenModel gguf_file(const nn::Model& with_adapters, const WriteOptions& options, const std::string& name,
                       const std::string& file) {
  const nn::Model model = nn::merged(with_adapters);
  const Decoder decoder = decoder_of(model, "", name);
  std::vector<FileTensor> tensors;
  for (const Part& part : decoder.parts) tensors.push_back(tensor_of(part, decoder.config, options.dtype));
  if (std::vector<float> factors = gguf_rope_factors(decoder.config); !factors.empty())
    tensors.push_back(factors_tensor(std::move(factors)));
  WrittenModel out;
  out.architecture = decoder.config.architecture;
  out.tensors = tensors.size();
  GgufHeader header;
  add_gguf_metadata(decoder.config, name, header, out.warnings);
  constexpr std::uint32_t kQuantization = 2;
  header.add("general.file_type", file_kind(tensors));
  if (std::ranges::any_of(tensors, is_quantized)) header.add("general.quantization_version", kQuantization);
  add_gguf_tokenizer(model, decoder.config.vocabulary, name, header, out.warnings);
  for (const FileTensor& tensor : tensors) header.add_tensor(tensor.name, tensor.shape, tensor.type, tensor.bytes);
  OutsideFile whole{file, {piece_of(header.finish())}};
  for (FileTensor& tensor : tensors) whole.pieces.push_back(padded_piece(std::move(tensor)));
  out.files.push_back(std::move(whole));
  return out;
}

}  // namespace mlx::convert
