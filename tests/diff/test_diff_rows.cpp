// Row diffs: known answers, hostile tables, and random edits whose diff makes the one table of the other.
#include "diff/diff_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/error.h"

namespace mlx::diff {
namespace {

using Names = std::vector<std::string>;

RowDiff diff(const std::string& before, const std::string& after, Names key = {}, TableKind kind = TableKind::kCsv,
             std::size_t memory = 1 << 20) {
  Pool pool(2);
  RowOptions options;
  options.key = std::move(key);
  options.limit = 100'000;
  options.memory = memory;
  return diff_rows({memory_source(before), kind}, {memory_source(after), kind}, options, pool);
}

std::string error_of(const std::string& text, TableKind kind) {
  try {
    const auto reader = read_table(memory_source(text)(), kind);
    Row row;
    while (reader->next(row)) continue;
  } catch (const Error& error) {
    REQUIRE(error.kind == ErrorKind::kCorrupt);
    return error.message;
  }
  return "";
}

std::vector<Names> rows_of(const std::string& text, TableKind kind = TableKind::kCsv) {
  const auto reader = read_table(memory_source(text)(), kind);
  std::vector<Names> rows = {reader->columns()};
  Row row;
  while (reader->next(row)) {
    Names& cells = rows.emplace_back();
    for (const Cell& cell : row.cells) cells.emplace_back(cell.text);
  }
  return rows;
}

TEST_CASE("CSV as RFC 4180 has it: quotes, doubled quotes, line ends inside cells, CRLF, no last line end") {
  CHECK(rows_of("a,b\r\n\"x,1\",\"say \"\"hi\"\"\"\r\n\r\n\"two\nlines\",5\" disk") ==
        std::vector<Names>{{"a", "b"}, {"x,1", "say \"hi\""}, {"two\nlines", "5\" disk"}});
  CHECK(rows_of("\xEF\xBB\xBFname\nx\n")[0] == Names{"name"});
  CHECK(rows_of("1,2\n3,4\n")[0] == Names{"1", "2"});
  CHECK(rows_of("1,2\n3,4\n").size() == 3);
  CHECK(rows_of("a,\n1,\n")[0] == Names{"1", "2"});  // an empty name is none
  CHECK(rows_of("a\tb,c\n1\t2\n", TableKind::kTsv)[0] == Names{"a", "b,c"});
  CHECK(rows_of("").size() == 1);
}

TEST_CASE("rows longer than a block of reading, and rows that end where a block does") {
  std::string text = "id,text\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i) + ",\"" + std::string(20'000 + i * 997, 'x') + "\n\"\"\"\n";
  const std::vector<Names> rows = rows_of(text);
  REQUIRE(rows.size() == 41);
  CHECK(rows[40][1].size() == 20'000 + 39 * 997 + 2);
}

TEST_CASE("JSON lines: the order of keys, white space and the way numbers are written do not matter") {
  const RowDiff same = diff("{\"a\":1,\"b\":[1,{\"x\":2,\"y\":0.5}]}\n{\"a\":2.50,\"b\":\"\\u00e4\"}\n",
                            "{\"b\": \"\xC3\xA4\", \"a\": 2.5}\n\n{ \"b\":[1, {\"y\":5e-1,\"x\":2}], \"a\": 1 }", {},
                            TableKind::kJsonLines);
  CHECK(same.same_rows());
  CHECK(same.rows_after == 2);
  CHECK(rows_of("{\"a\":1.0}\n{\"a\":1.00}\n{\"a\":1}\n[1]\n", TableKind::kJsonLines) ==
        std::vector<Names>{{}, {"1.0"}, {"1.0"}, {"1"}, {"[1]"}});
}

TEST_CASE("by key: added, removed and changed rows, cell by cell, and how often each column changed") {
  const RowDiff d =
      diff("id,name,price\n1,a,3\n2,b,4\n3,c,5\n4,d,6\n", "id,name,price\n4,d,6\n3,C,7\n1,a,4\n9,z,0\n", {"id"});
  CHECK(d.by_key);
  CHECK(d.added == 1);
  CHECK(d.removed == 1);
  CHECK(d.changed == 2);
  REQUIRE(d.changed_rows.size() == 2);
  CHECK(d.changed_rows[0].key == NamedCells{{"id", "1"}});
  CHECK(d.changed_rows[0].line_before == 2);
  CHECK(d.changed_rows[0].line_after == 4);
  REQUIRE(d.changed_rows[0].cells.size() == 1);
  CHECK(d.changed_rows[0].cells[0].column == "price");
  CHECK(d.changed_rows[0].cells[0].before == "3");
  CHECK(d.changed_rows[0].cells[0].after == "4");
  CHECK(d.changed_rows[1].cells.size() == 2);
  REQUIRE(d.changed_cells);
  CHECK(*d.changed_cells == std::vector<std::pair<std::string, std::uint64_t>>{{"price", 2}, {"name", 1}});
  CHECK(d.added_rows[0].line == 5);
  CHECK(d.removed_rows[0].cells[1].second == "b");
}

TEST_CASE("columns added, removed, of another type and in another order are told once and not as every row") {
  using Kind = ColumnChange::Kind;
  const RowDiff d = diff("id,old,n\n1,x,3\n2,y,4\n", "n,id,new\n3,1,0.5\n4.5,2,1\n", {"id"});
  CHECK(d.columns_moved);
  REQUIRE(d.columns.size() == 3);
  CHECK(d.columns[0].kind == Kind::kRemoved);
  CHECK(d.columns[1].kind == Kind::kRetyped);
  CHECK(d.columns[1].before == ValueType::kInt);
  CHECK(d.columns[1].after == ValueType::kFloat);
  CHECK(d.columns[2].name == "new");
  CHECK(d.changed == 1);
  CHECK(d.added + d.removed == 0);
}

TEST_CASE("a key of JSON lines that only some rows have is a change of those rows") {
  const RowDiff d = diff("{\"id\":1}\n{\"id\":2}\n", "{\"id\":1,\"x\":5}\n{\"id\":2}\n", {"id"}, TableKind::kJsonLines);
  CHECK(d.columns.size() == 1);
  REQUIRE(d.changed == 1);
  CHECK(d.changed_rows[0].cells[0].before == std::nullopt);
  CHECK(d.changed_rows[0].cells[0].after == "5");
}

TEST_CASE("keys that stand twice are told with their line, and their rows go together in order") {
  const RowDiff d = diff("id,v\n1,a\n1,b\n2,c\n", "id,v\n1,a\n1,x\n1,y\n2,c\n", {"id"});
  CHECK(d.doubled_before == 1);
  CHECK(d.doubled_after == 2);
  REQUIRE(d.doubled.size() == 3);
  CHECK(d.doubled[0].line == 3);
  CHECK(d.changed == 1);
  CHECK(d.added == 1);
}

TEST_CASE("a key column that a side lacks: compared by content, and said") {
  const RowDiff d = diff("a,b\n1,2\n", "a,b\n1,3\n", {"id"});
  CHECK(d.missing_key == Names{"id"});
  CHECK_FALSE(d.by_key);
  CHECK(d.added == 1);
  CHECK(d.removed == 1);
}

TEST_CASE("tables without a column in common have no row in common") {
  const RowDiff d = diff("a\n1\n1\n", "b\n1\n", {});
  CHECK(d.removed == 2);
  CHECK(d.added == 1);
}

TEST_CASE("what is no table names the line") {
  CHECK(error_of("a,b\n1,2\n1,2,3\n", TableKind::kCsv) == "line 3: 3 cells, 2 columns");
  CHECK(error_of("a,b\n1,\"2\n\n", TableKind::kCsv) == "line 2: an unterminated quoted cell");
  CHECK(error_of("a,b\n\"1\"x,2\n", TableKind::kCsv) == "line 2: text after a quoted cell");
  CHECK(error_of(std::string("a\n1\n\0\n", 6), TableKind::kCsv) == "line 3: a zero byte, which text cannot contain");
  CHECK(error_of("{\"a\":1}\n{\"a\":\n", TableKind::kJsonLines) == "line 2: not JSON");
  CHECK(error_of("{\"a\":1} x\n", TableKind::kJsonLines) == "line 1: not JSON");
  CHECK(error_of(std::string(200, '['), TableKind::kJsonLines) == "line 1: not JSON");
  CHECK(error_of("a\n\"" + std::string(17 << 20, 'x'), TableKind::kCsv) == "line 2: a row of more than 16 MiB");
  CHECK_THROWS_AS(diff("a,b\n1\n", "a,b\n"), Error);
}

TEST_CASE("random bytes are a table or kCorrupt, never anything else") {
  std::mt19937 random(7);
  const std::string alphabet = "a1,\"\n\r\t{}[]:. \\e\xC3\xA4";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t size = random() % 60; text.size() < size;) text += alphabet[random() % alphabet.size()];
    for (const TableKind kind : {TableKind::kCsv, TableKind::kTsv, TableKind::kJsonLines}) {
      CAPTURE(text);
      error_of(text, kind);
    }
  }
}

// A table with a unique id, some columns of random words (with everything that needs quotes), and edits of it.
using TestTable = std::map<std::string, Names>;

std::string word(std::mt19937& random) {
  const Names words = {"", "a", "b,c", "\"q\"", "line\nend", "7", "0.5", "\xC3\xA4", "true", "x\ty"};
  return words[random() % words.size()];
}

std::string quoted(const std::string& cell) {
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string text_of(const TestTable& table, std::mt19937& random) {
  std::vector<std::string> lines;
  for (const auto& [id, cells] : table) {
    std::string& line = lines.emplace_back(id);
    for (const std::string& cell : cells) line += ',' + quoted(cell);
  }
  std::shuffle(lines.begin(), lines.end(), random);
  std::string text = "id,one,two,three\n";
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

TestTable random_table(std::mt19937& random, std::size_t rows) {
  TestTable table;
  while (table.size() < rows) table[std::to_string(random() % 1000)] = {word(random), word(random), word(random)};
  return table;
}

void edit(TestTable& table, std::mt19937& random) {
  for (auto row = table.begin(); row != table.end();) {
    const auto dice = random() % 10;
    if (dice == 0) row->second[random() % 3] = word(random);
    row = dice == 1 ? table.erase(row) : std::next(row);
  }
  for (int i = 0; i < 5; ++i) table[std::to_string(2000 + random() % 50)] = {word(random), word(random), word(random)};
}

Names without_names(const NamedCells& cells) {
  Names out;
  for (const auto& [name, text] : cells) out.push_back(text);
  return out;
}

TEST_CASE("the diff applied to one table gives the other, by key and by content, in one pass and in many") {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const TestTable before = random_table(random, random() % 80);
    TestTable after = before;
    edit(after, random);
    const std::string old_text = text_of(before, random), new_text = text_of(after, random);
    const std::size_t memory = round % 2 ? 1 << 20 : 300;

    TestTable patched = before;
    const RowDiff keyed = diff(old_text, new_text, {"id"}, TableKind::kCsv, memory);
    for (const ShownRow& row : keyed.removed_rows) CHECK(patched.erase(row.cells[0].second) == 1);
    for (const ChangedRow& row : keyed.changed_rows) {
      for (const CellChange& cell : row.cells) {
        const Names columns = {"one", "two", "three"};
        const auto place = std::ranges::find(columns, cell.column) - columns.begin();
        std::string& there = patched.at(row.key[0].second)[static_cast<std::size_t>(place)];
        CHECK(there == cell.before);
        there = *cell.after;
      }
    }
    for (const ShownRow& row : keyed.added_rows) {
      Names cells = without_names(row.cells);
      patched.emplace(cells[0], Names(cells.begin() + 1, cells.end()));
    }
    CHECK(patched == after);

    std::multiset<Names> rows;
    for (const auto& row : rows_of(old_text)) rows.insert(row);
    const RowDiff content = diff(old_text, new_text, {}, TableKind::kCsv, memory);
    for (const ShownRow& row : content.removed_rows) {
      const auto found = rows.find(without_names(row.cells));
      REQUIRE(found != rows.end());
      rows.erase(found);
    }
    for (const ShownRow& row : content.added_rows) rows.insert(without_names(row.cells));
    std::multiset<Names> expected;
    for (const auto& row : rows_of(new_text)) expected.insert(row);
    CHECK(rows == expected);
  }
}

}  // namespace
}  // namespace mlx::diff
