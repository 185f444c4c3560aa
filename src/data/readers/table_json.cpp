// JSON lines: one object per line; its keys are the columns. Rows of plain values are parsed here without copying.
// Everything else (nested values, escapes) goes through the JSON parser and is made canonical. A line that is JSON but
// not an object is a row of the one column "value".
#include <charconv>
#include <deque>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "data/readers/table_format.h"
#include "data/readers/window.h"

namespace mlx::data {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Scans one line; every function returns false if the line is not plain.
struct Scanner {
  std::string_view line;
  std::size_t at = 0;

  void skip_blanks() {
    while (at < line.size() && is_blank(line[at])) ++at;
  }
  bool take(char c) {
    skip_blanks();
    if (at == line.size() || line[at] != c) return false;
    ++at;
    return true;
  }
  // With its quotes.
  bool string(std::string_view& text) {
    const std::size_t begin = at;
    if (!take('"')) return false;
    bool ascii = true;
    for (; at < line.size() && line[at] != '"'; ++at) {
      const auto byte = static_cast<unsigned char>(line[at]);
      if (byte < 0x20 || byte == '\\') return false;
      ascii = ascii && byte < 0x80;
    }
    if (at == line.size()) return false;
    text = line.substr(begin, ++at - begin);
    return ascii || is_utf8(text);
  }
  bool word(std::string_view expected, std::string_view& text) {
    if (line.substr(at, expected.size()) != expected) return false;
    text = line.substr(at, expected.size());
    at += expected.size();
    return true;
  }
  // Integers that are canonical as written.
  bool integer(std::string_view& text) {
    const std::size_t begin = at;
    if (line[at] == '-') ++at;
    const std::size_t first = at;
    while (at < line.size() && line[at] >= '0' && line[at] <= '9') ++at;
    text = line.substr(begin, at - begin);
    const std::size_t digits = at - first;
    if (digits == 0 || digits > 18 || (line[first] == '0' && text.size() > 1)) return false;
    return at == line.size() || (line[at] != '.' && line[at] != 'e' && line[at] != 'E');
  }
  // Numbers with a fraction in their shortest form, as in canonical JSON.
  bool decimal(std::string_view& text) {
    const std::size_t begin = at;
    at = std::min(line.find_first_of(",} \t\r", at), line.size());
    text = line.substr(begin, at - begin);
    double value = 0;
    const auto [read, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (wrong != std::errc() || read != text.data() + text.size()) return false;
    char shortest[32];
    const char* const end = std::to_chars(std::begin(shortest), std::end(shortest), value).ptr;
    const std::string_view wanted(shortest, static_cast<std::size_t>(end - shortest));
    if (wanted.find_first_of(".en") != std::string_view::npos) return text == wanted && wanted.back() != 'n';
    return text.size() == wanted.size() + 2 && text.starts_with(wanted) && text.ends_with(".0");
  }
  bool number(std::string_view& text) {
    const std::size_t begin = at;
    if (integer(text)) return true;
    at = begin;
    return decimal(text);
  }
  bool value(std::string_view& text) {
    skip_blanks();
    if (at == line.size()) return false;
    switch (line[at]) {
      case '"':
        return string(text);
      case 't':
        return word("true", text);
      case 'f':
        return word("false", text);
      case 'n':
        return word("null", text);
      default:
        return number(text);
    }
  }
};

class JsonLinesReader final : public TableReader {
 public:
  explicit JsonLinesReader(std::unique_ptr<Source> source) : window_(std::move(source)) {}

  bool next(Row& row) override {
    for (;;) {
      const std::string_view text = window_.bytes();
      const std::size_t end = text.find('\n', searched_);
      if (end == std::string_view::npos && !window_.ended()) {
        searched_ = text.size();
        window_.grow();
        continue;
      }
      searched_ = 0;
      if (text.empty()) return false;
      const std::string_view line = text.substr(0, end);
      row.offset = window_.offset();
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
        window_.skip(std::min(line.size() + 1, text.size()));
        continue;
      }
      if (!parse_plain(line, row)) parse_any(line, row);
      window_.skip(std::min(line.size() + 1, text.size()));
      return true;
    }
  }

  void seek(std::uint64_t offset) override {
    window_.seek(offset);
    searched_ = 0;
  }
  const std::vector<std::string>& columns() const override { return columns_; }

 private:
  bool parse_plain(std::string_view line, Row& row) {
    row.cells.clear();
    Scanner scanner{line};
    if (!scanner.take('{')) return false;
    if (!scanner.take('}')) {
      do {
        std::string_view key, value;
        scanner.skip_blanks();
        if (!scanner.string(key) || !scanner.take(':') || !scanner.value(value)) return false;
        add_cell(row, key.substr(1, key.size() - 2), value);
      } while (scanner.take(','));
      if (!scanner.take('}')) return false;
    }
    scanner.skip_blanks();
    return scanner.at == line.size() && !has_doubled(row);
  }

  void parse_any(std::string_view line, Row& row) {
    row.cells.clear();
    made_.clear();
    Json json;
    try {
      json = parse_json(line, "row");
      if (!json.is_object()) json = Json{{"value", json}};
      for (const auto& [key, value] : json.items()) add_cell(row, key, made_.emplace_back(canonical(value)));
    } catch (const Error&) {
      window_.corrupt("not JSON");
    }
  }

  void add_cell(Row& row, std::string_view key, std::string_view value) {
    // Most rows have the keys of the row before, in its order.
    const std::size_t place = row.cells.size();
    if (place < order_.size() && columns_[order_[place]] == key) {
      row.cells.push_back({order_[place], value});
      return;
    }
    const auto [found, added] = numbers_.try_emplace(std::string(key), static_cast<std::uint32_t>(columns_.size()));
    if (added) {
      columns_.emplace_back(key);
      seen_.push_back(0);
      if (columns_.size() > kMostColumns)
        window_.corrupt(fmt::format("more than the {} different keys that a table may have", kMostColumns));
    }
    if (place < order_.size())
      order_[place] = found->second;
    else
      order_.push_back(found->second);
    row.cells.push_back({found->second, value});
  }

  bool has_doubled(const Row& row) {
    ++row_number_;
    for (const Cell& cell : row.cells) {
      if (std::exchange(seen_[cell.column], row_number_) == row_number_) return true;
    }
    return false;
  }

  Window window_;
  std::size_t searched_ = 0;  // bytes of the window known to have no line end
  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::uint32_t> order_;  // columns of the last row
  std::vector<std::uint64_t> seen_;   // by column: the row that had it last
  std::uint64_t row_number_ = 0;
  std::deque<std::string> made_;  // this row's cells that were made canonical
};

}  // namespace

std::unique_ptr<TableReader> read_json_lines(std::unique_ptr<Source> source) {
  return std::make_unique<JsonLinesReader>(std::move(source));
}

}  // namespace mlx::data
