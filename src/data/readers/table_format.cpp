// The table of formats, and how a file's format is found.
#include "data/readers/table_format.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/readers/byte_stream.h"
#include "formats/safetensors.h"

namespace mlx::data {
namespace {

constexpr std::string_view kCsvEndings[] = {".csv"};
constexpr std::string_view kTsvEndings[] = {".tsv"};
constexpr std::string_view kJsonEndings[] = {".jsonl", ".ndjson"};
constexpr std::string_view kNpyEndings[] = {".npy"};
constexpr std::string_view kNpzEndings[] = {".npz"};
constexpr std::string_view kSafetensorsEndings[] = {".safetensors"};
constexpr std::string_view kParquetEndings[] = {".parquet"};
constexpr std::string_view kSqliteEndings[] = {".sqlite", ".sqlite3"};
std::unique_ptr<TableReader> open_csv(std::unique_ptr<Source> source, const std::string& /*table*/) {
  return read_csv(std::move(source), '\0');
}
std::unique_ptr<TableReader> open_tsv(std::unique_ptr<Source> source, const std::string& /*table*/) {
  return read_csv(std::move(source), '\t');
}
// Of a format whose files are one table.
template <std::unique_ptr<TableReader> (*kRead)(std::unique_ptr<Source>)>
std::unique_ptr<TableReader> open_only(std::unique_ptr<Source> source, const std::string& /*table*/) {
  return kRead(std::move(source));
}
bool is_npy(ByteView head) {
  return as_text(head).starts_with("\x93NUMPY");
}
bool is_zip(ByteView head) {
  return as_text(head).starts_with("PK\x03\x04");
}
bool is_sqlite(ByteView head) {
  return as_text(head).starts_with(std::string_view("SQLite format 3\0", 16));
}
bool is_safetensors(ByteView head) {
  return head.size() > 8 && formats::safetensors_header_size(head, ~std::uint64_t{0}) > 0;
}
bool is_parquet(ByteView head) {
  return as_text(head).starts_with("PAR1");
}

constexpr TableFormat kFormats[] = {
    {TableKind::kCsv, "CSV", kCsvEndings, "line", nullptr, false, open_csv},
    {TableKind::kTsv, "TSV", kTsvEndings, "line", nullptr, false, open_tsv},
    {TableKind::kJsonLines, "JSON lines", kJsonEndings, "line", nullptr, false, open_only<read_json_lines>},
    {TableKind::kNpy, "npy", kNpyEndings, "row", is_npy, false, open_only<read_npy>},
    {TableKind::kNpz, "npz", kNpzEndings, "row", is_zip, false, open_only<read_npz>},
    {TableKind::kSafetensors, "safetensors", kSafetensorsEndings, "row", is_safetensors, false,
     open_only<read_safetensors>},
    {TableKind::kParquet, "Parquet", kParquetEndings, "row", is_parquet, false, open_only<read_parquet>},
    {TableKind::kSqlite, "SQLite", kSqliteEndings, "row", is_sqlite, true, read_sqlite},
};

// All endings, in the order of the rows.
constexpr std::size_t kEndingCount = [] {
  std::size_t count = 0;
  for (const TableFormat& format : kFormats) count += format.endings.size();
  return count;
}();
constexpr std::array<std::string_view, kEndingCount> kEndings = [] {
  std::array<std::string_view, kEndingCount> all;
  auto* to = all.begin();
  for (const TableFormat& format : kFormats) to = std::ranges::copy(format.endings, to).out;
  return all;
}();

const TableFormat* recognised(ByteView head) {
  const auto found = std::ranges::find_if(
      kFormats, [&](const TableFormat& format) { return format.recognises && format.recognises(head); });
  return found == std::end(kFormats) ? nullptr : &*found;
}

TableKind kind_of_text(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return TableKind::kJsonLines;
  const std::size_t separator = text.substr(0, text.find('\n')).find_first_of(",\t");
  return separator != std::string_view::npos && text[separator] == '\t' ? TableKind::kTsv : TableKind::kCsv;
}

}  // namespace

std::span<const TableFormat> table_formats() {
  return kFormats;
}

const TableFormat& table_format(TableKind kind) {
  return *std::ranges::find(kFormats, kind, &TableFormat::kind);
}

std::span<const std::string_view> table_endings() {
  return kEndings;
}

std::string table_endings_text() {
  std::string text;
  for (const std::string_view ending : kEndings) {
    if (!text.empty()) text += ending == kEndings.back() ? " or " : ", ";
    text += ending;
  }
  return text;
}

std::optional<TableKind> table_kind(std::string_view path) {
  path = without_compression(path);
  for (const TableFormat& format : kFormats)
    for (const std::string_view ending : format.endings)
      if (path.ends_with(ending)) return format.kind;
  return std::nullopt;
}

void fail_unsettled(const std::string& table, const std::string& log) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {} holds changes that are not in it", table, log),
              fmt::format("close what writes to it, or `sqlite3 {} 'PRAGMA journal_mode = DELETE'`", table));
}

FoundTable find_table(const OpenSource& stored, const std::string& name) {
  FoundTable found{plain_text(stored, name)};
  const Bytes head = read_head(*found.open(), 64);
  if (const TableFormat* format = recognised(head)) {
    found.kind = format->kind;
    return found;
  }
  const std::optional<TableKind> named = table_kind(name);
  if (!named)
    throw Error(ErrorKind::kUsage, fmt::format("{}: not a table by its name", name),
                fmt::format("the name must end in {}; text may be compressed with gzip or zstd", table_endings_text()));
  found.kind = *named;
  if (const TableFormat& format = table_format(*named); format.recognises)
    fail(ErrorKind::kCorrupt, "{}: not {}, by its first bytes", name, format.name);
  return found;
}

FoundTable find_nameless_table(const OpenSource& stored, const std::string& name) {
  FoundTable found{plain_text(stored, name)};
  const Bytes head = read_head(*found.open(), std::size_t{1} << 20);
  const TableFormat* format = recognised(head);
  found.kind = format ? format->kind : kind_of_text(as_text(head));
  return found;
}

}  // namespace mlx::data
