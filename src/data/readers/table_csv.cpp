// CSV and TSV. Cells in double quotes hold separators, line ends and doubled quotes; a quote inside a cell that does
// not begin with one is an ordinary character. Lines end with LF or CRLF; a byte order mark is skipped.
#include <algorithm>
#include <deque>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "data/readers/cell_ends.h"
#include "data/readers/csv_dialect.h"
#include "data/readers/table_format.h"
#include "data/readers/window.h"

namespace mlx::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class CsvReader final : public TableReader {
 public:
  CsvReader(std::unique_ptr<Source> source, char separator) : window_(std::move(source)), separator_(separator) {
    window_.grow();
    if (window_.bytes().starts_with(kByteOrderMark)) window_.skip(kByteOrderMark.size());
    if (separator == 0) separator_ = find_separator(window_.bytes(), window_.ended());
    odd_separator_ = separator == 0 && separator_ != ',';
    read_header();
  }

  bool next(Row& row) override {
    if (!read(row)) return false;
    if (row.cells.size() != columns_.size()) {
      window_.seek(row.offset);
      window_.corrupt(fmt::format("{} cells, {} columns", row.cells.size(), columns_.size()));
    }
    return true;
  }

  void seek(std::uint64_t offset) override {
    window_.seek(offset);
    ends_.forget();
  }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::string no_header() const override { return no_header_; }
  std::string found_out() const override {
    std::string text;
    if (odd_separator_)
      text = fmt::format("cells end at {}", separator_ == '\t' ? "tabs" : std::string{'\'', separator_, '\''});
    if (decimal_commas_) text += ", 1,5 is 1.5";
    if (latin1_) text += fmt::format("{}Latin-1, not UTF-8", text.empty() ? "" : ", ");
    return text;
  }

 private:
  void read_header() {
    const std::uint64_t begin = window_.offset();
    Row row;
    if (!read(row)) return;
    no_header_ = why_no_header(row);
    const bool header = no_header_.empty();
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const std::string_view name = trimmed(row.cells[i].text);
      columns_.push_back(header && !name.empty() ? std::string(name) : std::to_string(i + 1));
    }
    if (!header) seek(begin);
  }

  static std::string why_no_header(const Row& row) {
    std::set<std::string_view> names;
    for (const Cell& cell : row.cells) {
      const ValueType type = type_of(cell.text, TableKind::kCsv);
      const std::string_view name = trimmed(cell.text);
      if (type != ValueType::kText && type != ValueType::kNull)
        return fmt::format("'{}' in its first line is a value, not a name", name.substr(0, 40));
      if (!names.insert(name).second) return fmt::format("its first line has '{}' twice", name.substr(0, 40));
      if (name.empty() && (cell.column > 0 || row.cells.size() == 1))
        return fmt::format("cell {} of its first line is empty", cell.column + 1);
    }
    return {};
  }

  bool read(Row& row) {
    for (;;) {
      const std::string_view text = window_.bytes();
      if (text.empty() && window_.ended()) return false;
      const std::size_t used = text.empty() ? 0 : parse(text, row);
      if (used == 0) {
        window_.grow();
        ends_.forget();
        continue;
      }
      const bool blank = row.cells.size() == 1 && row.cells[0].text.empty() && text[0] != '"';
      row.offset = window_.offset();
      window_.skip(used);
      if (blank) continue;
      if (window_.has_high_byte() && has_high_byte(text.substr(0, used))) decode(row);
      if (separator_ == ';') read_decimal_commas(row);
      return true;
    }
  }

  // Parses one row at the beginning of `text`. Returns its length, or 0 if it may continue after `text`.
  std::size_t parse(std::string_view text, Row& row) {
    unquoted_.clear();
    std::size_t count = 0;  // the cells of the row before are written over
    for (std::size_t at = 0;;) {
      std::string_view cell;
      const bool quoted = at < text.size() && text[at] == '"';
      const std::size_t end = quoted ? quoted_cell(text, at, cell) : plain_cell(text, at, cell);
      if (end == kMore) return 0;
      if (count == row.cells.size()) row.cells.emplace_back();
      row.cells[count] = {static_cast<std::uint32_t>(count), cell};
      row.cells[count].padded = unquoted_.empty();  // else it may not stand in the window
      if (++count > kMostColumns)
        window_.corrupt(fmt::format("more than the {} columns that a table may have", kMostColumns));
      if (end < text.size() && text[end] != '\n') {
        at = end + 1;
        continue;
      }
      row.cells.resize(count);
      return std::min(end + 1, text.size());
    }
  }

  // The position of the separator, line end or end of file after the cell.
  std::size_t plain_cell(std::string_view text, std::size_t at, std::string_view& cell) {
    const std::size_t end = ends_.next(text, at, separator_);
    if (end == text.size() && !window_.ended()) return kMore;
    cell = {text.data() + at, end - at};
    const bool last = end == text.size() || text[end] == '\n';
    if (last && cell.ends_with('\r')) cell.remove_suffix(1);
    return end;
  }

  std::size_t quoted_cell(std::string_view text, std::size_t at, std::string_view& cell) {
    bool doubled = false;
    std::size_t quote = at + 1;
    for (;; quote += 2, doubled = true) {
      quote = text.find('"', quote);
      if (quote == std::string_view::npos) {
        if (!window_.ended()) return kMore;
        window_.corrupt("an unterminated quoted cell", at);
      }
      if (quote + 1 == text.size() && !window_.ended()) return kMore;
      if (quote + 1 == text.size() || text[quote + 1] != '"') break;
    }
    cell = text.substr(at + 1, quote - at - 1);
    if (doubled) cell = without_doubled(cell);
    std::size_t end = quote + 1;
    if (end < text.size() && text[end] == '\r') {
      if (end + 1 == text.size() && !window_.ended()) return kMore;
      ++end;
      if (end < text.size() && text[end] != '\n') window_.corrupt("text after a quoted cell", quote);
    }
    if (end < text.size() && text[end] != separator_ && text[end] != '\n')
      window_.corrupt("text after a quoted cell", quote);
    return end;
  }

  // Decodes each cell separately, so that valid UTF-8 is unchanged.
  void decode(Row& row) {
    for (Cell& cell : row.cells) {
      if (is_utf8(cell.text)) continue;
      std::optional<std::string> text = from_windows_1252(cell.text);
      if (!text) {
        window_.seek(row.offset);
        window_.corrupt("text that is neither UTF-8 nor Latin-1");
      }
      latin1_ = true;
      cell.text = unquoted_.emplace_back(std::move(*text));
      cell.padded = false;
    }
  }

  void read_decimal_commas(Row& row) {
    for (Cell& cell : row.cells) {
      if (!has_decimal_comma(trimmed(cell.text))) continue;
      decimal_commas_ = true;
      std::string& text = unquoted_.emplace_back(cell.text);
      text[text.find(',')] = '.';
      cell.text = text;
      cell.padded = false;
    }
  }

  std::string_view without_doubled(std::string_view cell) {
    std::string& text = unquoted_.emplace_back();
    for (std::size_t i = 0; i < cell.size(); ++i) {
      text += cell[i];
      if (cell[i] == '"') ++i;
    }
    return text;
  }

  static constexpr std::size_t kMore = static_cast<std::size_t>(-1);
  Window window_;
  CellEnds ends_;
  char separator_;
  bool odd_separator_ = false, decimal_commas_ = false, latin1_ = false;  // found_out()
  std::string no_header_;
  std::vector<std::string> columns_;
  std::deque<std::string> unquoted_;  // this row's cells that differ from what is written
};

}  // namespace

std::unique_ptr<TableReader> read_csv(std::unique_ptr<Source> source, char separator) {
  return std::make_unique<CsvReader>(std::move(source), separator);
}

}  // namespace mlx::data
