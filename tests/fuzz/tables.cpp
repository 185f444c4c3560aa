// Readers of tables, of conversations and of IDX files: whatever a file says, its rows are the same when they are read
// again and when they are read in blocks, and every message of a conversation begins and ends once.
#include "data/kinds/chat.h"
#include "data/readers/idx_reader.h"
#include "data/readers/table_format.h"
#include "fuzz.h"

using namespace mlx;
using namespace mlx::data;

namespace {

constexpr std::uint64_t kMostRows = 2000;  // a run of equal values may hold more than anyone waits for

std::string shown(const TableReader& reader, const Row& row) {
  std::string text, buffer;
  for (const Cell& cell : row.cells) {
    fuzz::require(cell.column < reader.columns().size(), "a cell has a column");
    text += std::to_string(cell.column) + '=' + std::string(text_of(cell, buffer)) + '\n';
  }
  return text;
}

// Formats with a mark are found by it; the size tells which kind of text other bytes are.
void read_rows_twice(const std::string& file, const char* name) {
  const FoundTable found = find_table(memory_source(file), name);
  const std::unique_ptr<TableReader> reader = read_table(found.open(), found.kind);
  Row row;
  std::uint64_t rows = 0, kept = 0;
  std::string expected;
  while (rows < kMostRows && reader->next(row)) {
    fuzz::require(!row.cells.empty() || found.kind == TableKind::kJsonLines, "a row has cells");
    const std::string text = shown(*reader, row);
    if (rows++ == file.size() % 7) expected = text, kept = row.offset;
  }
  (void)reader->found_out();
  if (rows <= file.size() % 7) return;
  reader->seek(kept);
  fuzz::require(reader->next(row) && row.offset == kept && shown(*reader, row) == expected, "the row is found again");
}

// Blocks have the rows that next() gives, and end as these do: at the end, or with the same error.
void read_blocks(const std::string& file) {
  const FoundTable found = find_table(memory_source(file), "table.csv");
  const std::unique_ptr<TableReader> by_blocks = read_table(found.open(), found.kind);
  const std::unique_ptr<TableReader> by_rows = read_table(found.open(), found.kind);
  if (!by_blocks->has_blocks()) return;
  RowBlock block;
  Row row, same;
  const auto failed = [](auto&& read) -> std::string {
    try {
      return read() ? "" : "the end";
    } catch (const Error& error) {
      return error.message;
    }
  };
  for (std::uint64_t rows = 0; rows < kMostRows; rows += block.rows) {
    const std::string end = failed([&] { return by_blocks->next_block(block); });
    if (!end.empty()) {
      fuzz::require(failed([&] { return by_rows->next(row); }) == end, "blocks end as rows do");
      return;
    }
    for (std::size_t i = 0; i < block.rows; ++i) {
      fuzz::require(by_rows->next(row) && row.offset == block.offset + i, "a block has rows that follow each other");
      same.cells.clear();
      for (const ColumnBlock& column : block.columns) {
        same.cells.push_back(column.cell(i));
        same.cells.back().column = static_cast<std::uint32_t>(same.cells.size() - 1);
      }
      fuzz::require(shown(*by_blocks, same) == shown(*by_rows, row), "a block has the cells of its rows");
    }
  }
}

std::size_t count_of(std::string_view mark, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) ++count;
  return count;
}

void read_conversation(std::string_view messages) {
  const std::vector<ChatPart> parts = chat_parts(messages);
  std::string text;
  for (const ChatPart& part : parts) text += part.text;
  fuzz::require(count_of("<|im_start|>", text) == parts.size() / 3, "every message begins once");
  fuzz::require(count_of("<|im_end|>", text) == parts.size() / 3, "every message ends once");
}

void read_images(ByteView file) {
  NoProgress silent;
  const auto read = [&](std::uint64_t offset, void* to, std::size_t count) -> std::size_t {
    const auto from = static_cast<std::size_t>(std::min<std::uint64_t>(offset, file.size()));
    const ByteView part = file.subspan(from, std::min(count, file.size() - from));
    std::copy(part.begin(), part.end(), static_cast<std::uint8_t*>(to));
    return part.size();
  };
  const IdxImages images = read_idx_images(read, "file", silent);
  fuzz::require(
      images.pixels.size() == static_cast<std::size_t>(images.count * images.height * images.width * images.channels),
      "pixels fill the images");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr const char* kNames[] = {"table.csv", "table.tsv", "table.jsonl"};
  const std::string file(reinterpret_cast<const char*>(data), size);
  fuzz::errors_are_fine([&] { read_rows_twice(file, kNames[size % 3]); });
  fuzz::errors_are_fine([&] { read_blocks(file); });
  fuzz::errors_are_fine([&] { read_conversation(file); });
  fuzz::errors_are_fine([&] { read_images({data, size}); });
  return 0;
}
