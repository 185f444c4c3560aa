// The metadata of Parquet files: the footer and the headers of pages. Bytes in, structure out; the values of pages are
// read by src/data/readers/table_parquet.cpp. Source: apache/parquet-format, parquet.thrift and README.md; the encoding
// of the metadata is Thrift's compact protocol.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace mlx::formats {

// The numbers of these enums are those of parquet.thrift.
enum class ParquetType : std::uint8_t { kBoolean, kInt32, kInt64, kInt96, kFloat, kDouble, kByteArray, kFixedBytes };
enum class ParquetCodec : std::uint8_t { kPlain, kSnappy, kGzip, kLzo, kBrotli, kLz4, kZstd, kLz4Raw };
enum class ParquetEncoding : std::uint8_t {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,
};
enum class ParquetPageKind : std::uint8_t { kData, kIndex, kDictionary, kDataV2 };

// What the values mean, from the logical or the converted type.
enum class ParquetMeaning : std::uint8_t { kNone, kText, kUnsigned, kDecimal, kDate, kTime, kTimestamp, kOther };

struct ParquetColumn {
  std::string name;
  ParquetType type{};
  ParquetMeaning meaning{};
  bool optional = false;        // values may be null
  std::int32_t length = 0;      // of kFixedBytes
  std::int32_t scale = 0;       // of kDecimal: the value is the integer divided by 10^scale
  std::int64_t per_second = 0;  // of kTime and kTimestamp: 1000, 10^6 or 10^9
  bool nested = false;          // a leaf of a group or a repeated field, which is not a cell
};

struct ParquetChunk {
  ParquetCodec codec{};
  std::uint64_t begin = 0, size = 0;  // its pages in the file
  std::uint64_t values = 0;           // nulls too
};
struct ParquetGroup {
  std::uint64_t rows = 0;
  std::vector<ParquetChunk> chunks;  // one for each column
};
struct ParquetFooter {
  std::vector<ParquetColumn> columns;
  std::vector<ParquetGroup> groups;
};
// `file_size` bounds what the footer may point to. kCorrupt.
ParquetFooter parse_parquet_footer(ByteView footer, std::uint64_t file_size);

struct ParquetPage {
  ParquetPageKind kind{};
  std::size_t header_size = 0;                     // the page's bytes follow
  std::size_t stored_size = 0, plain_size = 0;     // plain_size after decompression
  std::size_t values = 0;                          // nulls too
  ParquetEncoding encoding{};                      // of the values
  std::size_t levels_size = 0, repeated_size = 0;  // of kDataV2: of the definition and repetition levels before them
  bool compressed = true;                          // of kDataV2: the values are
};
// By the first bytes of a page; kCorrupt.
ParquetPage parse_parquet_page(ByteView head);

}  // namespace mlx::formats
