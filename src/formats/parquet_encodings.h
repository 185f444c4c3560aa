// Values of Parquet pages in the delta encodings and in BYTE_STREAM_SPLIT. Used by the reader of Parquet's values,
// which reads plain values and dictionaries itself. Source: apache/parquet-format, Encodings.md.
#pragma once

#include "formats/parquet.h"

namespace mlx::formats {

// The values of a page as PLAIN encoding has them. kCorrupt if `page` is damaged, if the encoding cannot hold the
// column's type, or if it has more than `values` values or the result would be longer than `most`. `encoding` is one of
// the four.
Bytes plain_parquet_values(ParquetEncoding encoding, ByteView page, const ParquetColumn& column, std::size_t values,
                           std::size_t most);

}  // namespace mlx::formats
