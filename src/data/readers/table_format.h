// The formats of tables, one row for each. A new format is one file with its reader, a key in TableKind (table.h) and a
// row in table_format.cpp.
//
// A table's format follows from its first bytes if they are a format's mark, else from its name's ending. Text formats
// (CSV, TSV, JSON lines) may be compressed with gzip or zstd, and may be UTF-16 with a byte order mark.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/readers/table.h"

namespace mlx::data {

struct TableFormat {
  TableKind kind;
  const char* name;                             // for people
  std::span<const std::string_view> endings;    // of files' names
  const char* row_word = "line";                // how errors and diffs name a row
  bool (*recognises)(ByteView head) = nullptr;  // by its first bytes; null if they do not tell
  bool has_tables = false;                      // several in a file, each with a name
  std::unique_ptr<TableReader> (*open)(std::unique_ptr<Source> source, const std::string& table) = nullptr;
};
std::span<const TableFormat> table_formats();
const TableFormat& table_format(TableKind kind);
// All endings, of all formats.
std::span<const std::string_view> table_endings();
std::string table_endings_text();  // ".csv, .tsv or .jsonl" …

// By the name alone, which may end in a compression's ending too.
std::optional<TableKind> table_kind(std::string_view path);

struct FoundTable {
  OpenSource open;  // plain bytes
  TableKind kind = TableKind::kCsv;
};
// By the content, then by the name. kUsage if neither says what it is. `name` stands in messages.
FoundTable find_table(const OpenSource& stored, const std::string& name);
// The same for text without a name: an object is JSON lines; a tab in the first line before any comma is TSV.
FoundTable find_nameless_table(const OpenSource& stored, const std::string& name);

// Endings of the files beside a SQLite file that hold changes which are not in it; empty ones hold none.
constexpr std::string_view kSqliteLogs[] = {"-wal", "-journal"};
[[noreturn]] void fail_unsettled(const std::string& table, const std::string& log);  // kUsage

// One reader for each format.
std::unique_ptr<TableReader> read_csv(std::unique_ptr<Source> source, char separator);  // 0: guessed
std::unique_ptr<TableReader> read_json_lines(std::unique_ptr<Source> source);
std::unique_ptr<TableReader> read_npy(std::unique_ptr<Source> source);
std::unique_ptr<TableReader> read_npz(std::unique_ptr<Source> source);
std::unique_ptr<TableReader> read_safetensors(std::unique_ptr<Source> source);
std::unique_ptr<TableReader> read_parquet(std::unique_ptr<Source> source);
// `table`: as for store::SqliteTable.
std::unique_ptr<TableReader> read_sqlite(std::unique_ptr<Source> source, const std::string& table);

}  // namespace mlx::data
