// The values of one column of a Parquet file, chunk by chunk, as cells. Used by the reader of Parquet tables. One page
// is in memory, and the dictionary of the chunk.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "data/readers/source.h"
#include "data/readers/table.h"
#include "formats/parquet.h"

namespace mlx::data {

// Numbers that hold bits: runs of one value and bit-packed groups of eight. Source: parquet-format, Encodings.md, RLE.
class HybridReader {
 public:
  HybridReader() = default;
  HybridReader(ByteView bytes, int width) : bytes_(bytes), width_(width) {}
  std::uint32_t next();  // kCorrupt at the end

 private:
  void begin_run();

  ByteView bytes_;
  int width_ = 0;
  std::size_t at_ = 0;      // of the next run
  std::uint64_t left_ = 0;  // values of the run
  bool packed_ = false;
  std::uint32_t value_ = 0;
  std::size_t bit_ = 0;  // of the next packed value
};

class ParquetValues {
 public:
  // Both outlive the object.
  ParquetValues(const Source& source, const formats::ParquetColumn& column) : source_(source), column_(column) {}

  // True if values of the column can be cells: numbers, text, times. Lists and groups cannot.
  static bool can_read(const formats::ParquetColumn& column);

  void open(const formats::ParquetChunk& chunk);  // next() gives its first value
  void next(Cell& cell);                          // the text of the cell lives until the next call; kCorrupt
  void skip(std::uint64_t count);

 private:
  formats::ParquetPage read_header();
  void read_page();
  void begin_page(const formats::ParquetPage& page);
  void begin_data(const formats::ParquetPage& page);
  void begin_values(const formats::ParquetPage& page);
  void begin_dictionary(const formats::ParquetPage& page);
  Bytes plain_bytes(const formats::ParquetPage& page);
  ByteView take(std::size_t count);
  void read_plain(Cell& cell, std::string& text);
  [[noreturn]] void damaged(const std::string& why) const;

  const Source& source_;
  const formats::ParquetColumn& column_;
  formats::ParquetCodec codec_{};
  std::uint64_t at_ = 0, end_ = 0;  // of the chunk's pages that are not read
  std::uint64_t left_in_chunk_ = 0, left_in_page_ = 0;
  Bytes page_, decoded_;  // decoded_: its values, if their encoding is not plain
  ByteView values_;       // of the page, not read
  std::size_t bit_ = 0;   // of booleans: the next one in values_
  bool has_levels_ = false, indexed_ = false, runs_ = false;
  HybridReader levels_, indices_;  // indices_: into the dictionary, or booleans in runs
  Bytes dictionary_page_;
  std::vector<Cell> dictionary_;
  std::deque<std::string> dictionary_texts_;  // that its cells point to
  std::string text_;
};

}  // namespace mlx::data
