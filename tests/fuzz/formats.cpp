// Headers of data and model files: whatever they say, tensors lie inside of the file.
#include "formats/gguf.h"
#include "formats/idx.h"
#include "formats/parquet.h"
#include "formats/safetensors.h"
#include "formats/snappy.h"
#include "fuzz.h"

using namespace mlx;
using namespace mlx::formats;

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
  return 0;
}
