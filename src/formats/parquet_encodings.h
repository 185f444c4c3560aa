// Values of Parquet pages in the delta encodings and in BYTE_STREAM_SPLIT; levels and indices in runs. Used by the
// reader of Parquet's values, which reads plain values and dictionaries itself. Source: apache/parquet-format,
// Encodings.md.
#pragma once

#include "formats/parquet.h"

namespace mlx::formats {

// The encoding RLE: numbers that hold bits, in runs of one value and in bit-packed groups of eight. A copy goes on at
// the same number. The bytes outlive it.
class ParquetRuns {
 public:
  ParquetRuns() = default;
  ParquetRuns(ByteView bytes, int width) : bytes_(bytes), width_(static_cast<std::size_t>(width)) {}
  void read(std::span<std::uint32_t> out);  // kCorrupt at the end
  // Passes the next `count` numbers if one run has them and all are `value`; else false, and nothing is passed.
  bool pass(std::size_t count, std::uint32_t value);

 private:
  void begin_run();
  void unpack(std::span<std::uint32_t> out);
  std::uint32_t number() const;  // the packed value at bit_

  ByteView bytes_;
  std::size_t width_ = 0;
  std::size_t at_ = 0;      // of the next run
  std::uint64_t left_ = 0;  // values of the run
  bool packed_ = false;
  std::uint32_t value_ = 0;
  std::size_t bit_ = 0;  // of the next packed value
};

// The values of a page as PLAIN encoding has them. kCorrupt if `page` is damaged, if the encoding cannot hold the
// column's type, or if it has more than `values` values or the result would be longer than `most`. `encoding` is one of
// the four.
Bytes plain_parquet_values(ParquetEncoding encoding, ByteView page, const ParquetColumn& column, std::size_t values,
                           std::size_t most);

}  // namespace mlx::formats
