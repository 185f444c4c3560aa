// The values of one column of a Parquet file, chunk by chunk, in batches. Used by the reader of Parquet tables. One
// page is in memory, the dictionary of the chunk, and one batch.
#pragma once

#include <string>
#include <vector>

#include "data/readers/byte_stream.h"
#include "data/readers/parquet_plain.h"
#include "data/readers/source.h"
#include "data/readers/table.h"
#include "formats/parquet.h"
#include "formats/parquet_encodings.h"

namespace mlx::data {

// What the columns of a file share: its bytes, and what unpacks pages.
struct ParquetPages {
  const Source& source;
  Bytes stored{};      // of the page that is being unpacked
  Bytes dictionary{};  // of numbers, until they are decoded
  ZstdUnpacker zstd{};
};

class ParquetValues {
 public:
  // Both outlive the object. Batches have at most `batch` values, and end where its multiples do.
  ParquetValues(ParquetPages& pages, const formats::ParquetColumn& column, std::size_t batch)
      : pages_(pages), column_(column), form_(form_of(column)), most_(batch) {}

  // True if values of the column can be cells: numbers, text, times. Lists and groups cannot.
  static bool can_read(const formats::ParquetColumn& column);

  void open(const formats::ParquetChunk& chunk);  // at its first value
  // Decodes the next batch if none of the last is left. At least one value is there then; kCorrupt if the next one
  // cannot be read. Values of earlier batches are gone.
  void decode();
  std::size_t decoded() const { return end_of_batch_ - next_; }
  ColumnBlock block() const;                        // the decoded values
  void pass(std::size_t count) { next_ += count; }  // of the decoded values
  void skip(std::uint64_t count);

 private:
  // What is read of a page, and from where it goes on.
  struct Unread {
    formats::ParquetRuns levels, indices;  // indices: into the dictionary, or booleans in runs
    ParquetPlainReader plain;
    std::uint64_t direct = 0;  // of values that are read when they are wanted: in the file
  };

  formats::ParquetPage read_header();
  void read_page();
  void begin_page(const formats::ParquetPage& page);
  bool begin_direct(const formats::ParquetPage& page);
  void begin_data(const formats::ParquetPage& page);
  void begin_values(const formats::ParquetPage& page);
  void begin_dictionary(const formats::ParquetPage& page);
  bool is_packed(const formats::ParquetPage& page) const;
  void unpack(const formats::ParquetPage& page, Bytes& plain);
  void unpack_stream(const formats::ParquetPage& page, std::size_t before, Bytes& plain);
  void decode_batch(std::size_t count);
  std::size_t decode_levels(std::size_t count);
  void decode_indices(std::size_t count);
  void read_direct(std::size_t count);
  void read_stored(std::uint64_t at, void* to, std::size_t size) const;
  void spread(std::size_t count, std::size_t present);

  ParquetPages& pages_;
  const formats::ParquetColumn& column_;
  ParquetForm form_;
  std::size_t most_;
  formats::ParquetCodec codec_{};
  std::uint64_t at_ = 0, end_ = 0;  // of the chunk's pages that are not read
  std::uint64_t left_in_chunk_ = 0, left_in_page_ = 0, in_chunk_ = 0;
  Bytes page_, decoded_;             // decoded_: its values, if their encoding is not plain
  std::uint64_t end_of_direct_ = 0;  // in the file
  bool has_levels_ = false, indexed_ = false, bits_ = false, runs_ = false, direct_ = false;
  Unread unread_;
  Bytes dictionary_page_;  // that cells point to
  ParquetPlain dictionary_;
  std::size_t dictionary_size_ = 0;
  std::uint64_t dictionary_number_ = 0;  // 0 for that of booleans
  ParquetPlain batch_;
  std::vector<std::uint32_t> codes_;
  std::vector<std::uint8_t> present_;
  bool all_present_ = true;
  std::size_t next_ = 0, end_of_batch_ = 0;
};

}  // namespace mlx::data
