// Headers of data and model files: whatever they say, tensors lie inside of the file.
#include <fmt/format.h>

#include <algorithm>

#include "base/path.h"
#include "formats/gguf.h"
#include "formats/idx.h"
#include "formats/parquet.h"
#include "formats/safetensors.h"
#include "formats/snappy.h"
#include "formats/tar.h"
#include "fuzz.h"

using namespace mlx;
using namespace mlx::formats;

namespace {

// A header's checksum is set right where the input is too unlikely to have found it.
void walk_tar(ByteView file) {
  const auto read = [&](std::uint64_t offset, void* to, std::size_t count) -> std::size_t {
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(offset, file.size()));
    Bytes part(file.begin() + static_cast<std::ptrdiff_t>(from),
               file.begin() + static_cast<std::ptrdiff_t>(from + std::min(count, file.size() - from)));
    if (file.size() % 2 == 1 && part.size() == kTarBlock) {
      std::uint32_t sum = 8 * ' ';
      for (std::size_t i = 0; i < part.size(); ++i) sum += i < 148 || i >= 156 ? part[i] : 0;
      if (sum > 8 * ' ') std::ranges::copy(as_bytes(fmt::format("{:07o}", sum)), part.begin() + 148);
    }
    std::ranges::copy(part, static_cast<std::uint8_t*>(to));
    return part.size();
  };
  std::uint64_t last = 0;
  read_tar(read, file.size(), "file", [&](TarMember&& member) {
    fuzz::require(member.begin <= file.size() && member.size <= file.size() - member.begin, "members lie in the file");
    fuzz::require(member.header >= last && member.begin == member.header + kTarBlock, "members follow one another");
    fuzz::require(is_safe_relative(member.name), "names stay inside");
    last = member.begin + member.size;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint64_t file_size = std::uint64_t{input.number()} << (input.byte() % 20);
  const ByteView head = input.rest();
  fuzz::errors_are_fine([&] {
    if (safetensors_header_size(head, file_size) > head.size()) return;
    for (const SafetensorsEntry& tensor : parse_safetensors(head, file_size).tensors)
      fuzz::require(tensor.begin <= tensor.end && tensor.end <= file_size, "tensors lie in the file");
  });
  fuzz::errors_are_fine([&] {
    if (!is_gguf(head)) return;
    for (const GgufTensor& tensor : parse_gguf(head, file_size).tensors)
      fuzz::require(tensor.begin <= tensor.end && tensor.end <= file_size, "tensors lie in the file");
  });
  fuzz::errors_are_fine([&] {
    if (head.size() < kIdxMagicSize || idx_header_size(head.first(kIdxMagicSize), "file") > head.size()) return;
    const IdxHeader header = parse_idx_header(head.first(idx_header_size(head.first(kIdxMagicSize), "file")), "file");
    fuzz::require(header.header_bytes <= head.size(), "elements begin behind the header");
  });
  fuzz::errors_are_fine([&] {
    for (const ParquetGroup& group : parse_parquet_footer(head, file_size).groups)
      for (const ParquetChunk& chunk : group.chunks)
        fuzz::require(chunk.begin <= file_size && chunk.size <= file_size - chunk.begin, "columns lie in the file");
  });
  fuzz::errors_are_fine(
      [&] { fuzz::require(parse_parquet_page(head).header_size <= head.size(), "a page begins behind its header"); });
  fuzz::errors_are_fine([&] {
    Bytes plain(file_size % 4096);
    unpack_snappy(head, plain);
  });
  fuzz::errors_are_fine([&] { walk_tar(head); });
  return 0;
}
