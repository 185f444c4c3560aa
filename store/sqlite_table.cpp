// Opens the bytes with sqlite3_deserialize(), which reads them where they are.
#include "store/sqlite_table.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace mlx::store {
namespace {

constexpr int kLongestValue = 16 << 20, kLongestProgram = 250'000;  // bytes; instructions of a statement
constexpr int kStepsBetween = 4096;                                 // instructions between two calls of count_steps()
constexpr int kMostSteps = 10'000'000;                              // instructions for one row
constexpr std::size_t kVersionsAt = 18;                             // two bytes of the header: 2 if the file has a WAL
constexpr std::uint64_t kLeastRow = 4;  // bytes of a row in a page: its place, its size, its key
constexpr std::size_t kShownTables = 20;

[[noreturn]] void fail_table(sqlite3* db, int code) {
  if ((code & 0xff) == SQLITE_NOMEM) throw std::bad_alloc();
  const bool endless = (code & 0xff) == SQLITE_INTERRUPT;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("sqlite: {}", endless ? "a row takes too many steps"
                                        : db    ? sqlite3_errmsg(db)
                                                : sqlite3_errstr(code)),
              "`sqlite3 FILE 'PRAGMA integrity_check'` says more");
}

std::string quoted_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

std::string table_list(const std::vector<std::string>& tables) {
  std::string text;
  for (std::size_t i = 0; i < std::min(tables.size(), kShownTables); ++i)
    text += (i > 0 ? ", " : "") + printable(tables[i].substr(0, 40));
  return tables.size() > kShownTables ? text + " …" : text;
}

int count_steps(void* left) {
  return (*static_cast<int*>(left) -= kStepsBetween) < 0;
}

std::string column_text(sqlite3_stmt* statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return text ? text : "";
}

}  // namespace

struct SqliteTable::Handles {
  Bytes file;
  sqlite3* db = nullptr;
  sqlite3_stmt* rows = nullptr;
  int steps_left = kMostSteps;

  ~Handles() {
    sqlite3_finalize(rows);
    sqlite3_close_v2(db);
  }

  void check(int code) const {
    if (code != SQLITE_OK) fail_table(db, code);
  }

  void open() {
    check(
        sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr));
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    for (const auto& [limit, most] :
         {std::pair(SQLITE_LIMIT_LENGTH, kLongestValue), std::pair(SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
          std::pair(SQLITE_LIMIT_EXPR_DEPTH, 50), std::pair(SQLITE_LIMIT_VDBE_OP, kLongestProgram),
          std::pair(SQLITE_LIMIT_ATTACHED, 0)})
      sqlite3_limit(db, limit, most);
    sqlite3_progress_handler(db, kStepsBetween, count_steps, &steps_left);
    // What a WAL beside the file would add is not in it; the file alone is a whole database in the older mode.
    if (file.size() > kVersionsAt + 1) file[kVersionsAt] = file[kVersionsAt + 1] = 1;
    const auto size = static_cast<sqlite3_int64>(file.size());
    check(sqlite3_deserialize(db, "main", file.data(), size, size, SQLITE_DESERIALIZE_READONLY));
    check(sqlite3_exec(db, "PRAGMA cell_size_check = ON; PRAGMA query_only = ON", nullptr, nullptr, nullptr));
  }

  sqlite3_stmt* prepare(const std::string& sql) const {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr));
    return statement;
  }

  // Calls row(statement) for each row.
  template <typename Row>
  void query(const std::string& sql, const Row& row) {
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepare(sql), sqlite3_finalize);
    int code;
    while (steps_left = kMostSteps, (code = sqlite3_step(statement.get())) == SQLITE_ROW) row(statement.get());
    if (code != SQLITE_DONE) fail_table(db, code);
  }

  // Virtual tables have no root page.
  std::vector<std::string> tables() {
    std::vector<std::string> names;
    query(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\' ORDER BY name",
        [&](sqlite3_stmt* row) { names.push_back(column_text(row, 0)); });
    return names;
  }

  std::string find_table(const std::string& wanted) {
    const std::vector<std::string> names = tables();
    if (wanted.empty() && names.size() == 1) return names[0];
    const std::string list = names.empty() ? "it has none" : "it has: " + table_list(names);
    if (wanted.empty())
      throw Error(ErrorKind::kUsage, fmt::format("sqlite: a file of {} tables; {}", names.size(), list),
                  "name one in dataset.toml: [splits.train] rows = \"FILE\", table = \"NAME\"");
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return sqlite3_stricmp(name.c_str(), wanted.c_str()) == 0; });
    if (found == names.end())
      throw Error(ErrorKind::kNotFound, fmt::format("sqlite: there is no table '{}'", printable(wanted)), list);
    return *found;
  }
};

SqliteTable::SqliteTable(Bytes file, const std::string& table) : handles_(std::make_unique<Handles>()) {
  handles_->file = std::move(file);
  handles_->open();
  const std::string name = handles_->find_table(table);
  find_columns(name);
  prepare_rows(name);
}

SqliteTable::~SqliteTable() = default;

// Generated columns are expressions of the schema, so they are left out.
void SqliteTable::find_columns(const std::string& table) {
  bool without_rowid = false;
  handles_->query(fmt::format("PRAGMA table_list({})", quoted_name(table)), [&](sqlite3_stmt* row) {
    if (column_text(row, 0) == "main") without_rowid = sqlite3_column_int(row, 4) != 0;
  });
  std::vector<std::string> free_names = {"rowid", "_rowid_", "oid"};
  handles_->query(fmt::format("PRAGMA table_xinfo({})", quoted_name(table)), [&](sqlite3_stmt* row) {
    const std::string name = column_text(row, 1);
    std::erase_if(free_names,
                  [&](const std::string& each) { return sqlite3_stricmp(each.c_str(), name.c_str()) == 0; });
    (sqlite3_column_int(row, 6) == 0 ? columns_ : generated_).push_back(name);
  });
  if (columns_.empty()) fail(ErrorKind::kCorrupt, "sqlite: table '{}' has no columns", printable(table));
  if (!without_rowid && !free_names.empty()) rowid_ = free_names[0];
}

// The key is the first result, so that a row says where it is. An index that holds all columns would give another
// order.
void SqliteTable::prepare_rows(const std::string& table) {
  std::string sql = "SELECT " + (rowid_.empty() ? "0" : rowid_);
  for (const std::string& column : columns_) sql += ", " + quoted_name(column);
  sql += fmt::format(" FROM {} NOT INDEXED", quoted_name(table));
  if (!rowid_.empty()) sql += fmt::format(" WHERE {0} >= ? ORDER BY {0}", rowid_);
  handles_->rows = handles_->prepare(sql);
  restart(0);
}

// At the last place that is kept before the row.
void SqliteTable::restart(std::uint64_t row) {
  sqlite3_reset(handles_->rows);
  any_ = ended_ = false;
  row_ = bytes_ = 0;
  if (rowid_.empty()) return;
  std::int64_t from = std::numeric_limits<std::int64_t>::min();
  if (!bookmarks_.empty()) {
    const std::uint64_t at = std::min<std::uint64_t>(row / kBookmark, bookmarks_.size() - 1);
    row_ = at * kBookmark, from = bookmarks_[static_cast<std::size_t>(at)];
  }
  handles_->check(sqlite3_bind_int64(handles_->rows, 1, from));
}

void SqliteTable::seek(std::uint64_t row) {
  const std::uint64_t kept = bookmarks_.empty() ? 0 : (bookmarks_.size() - 1) * kBookmark;
  if (row < row_ || (kept > row_ && row >= row_ + kBookmark)) restart(row);
  while (row_ < row && next()) continue;
}

bool SqliteTable::next() {
  if (ended_) return false;  // another step would begin again
  handles_->steps_left = kMostSteps;
  const int code = sqlite3_step(handles_->rows);
  if (code != SQLITE_ROW && code != SQLITE_DONE) fail_table(handles_->db, code);
  ended_ = code == SQLITE_DONE;
  if (ended_) return false;
  check_row();
  if (row_ % kBookmark == 0 && row_ / kBookmark == bookmarks_.size() && !rowid_.empty())
    bookmarks_.push_back(last_rowid_);
  ++row_;
  return true;
}

// A tree that leads to a page twice would have more rows, or more text, than there are bytes.
void SqliteTable::check_row() {
  const std::uint64_t size = handles_->file.size();
  bool endless = row_ >= size / kLeastRow;
  for (int i = 0; i < static_cast<int>(columns_.size()); ++i)
    if (type(i) == Type::kText || type(i) == Type::kBlob)
      bytes_ += static_cast<std::uint64_t>(sqlite3_column_bytes(handles_->rows, i + 1));
  endless |= bytes_ > 2 * size;  // UTF-16 may grow by half
  if (!rowid_.empty()) {
    const std::int64_t rowid = sqlite3_column_int64(handles_->rows, 0);
    endless |= any_ && rowid <= last_rowid_;
    any_ = true, last_rowid_ = rowid;
  }
  if (endless)
    throw Error(ErrorKind::kCorrupt, fmt::format("sqlite: row {}: a page is in the table twice", row_ + 1),
                "`sqlite3 FILE 'PRAGMA integrity_check'` says more");
}

SqliteTable::Type SqliteTable::type(int column) const {
  switch (sqlite3_column_type(handles_->rows, column + 1)) {
    case SQLITE_INTEGER:
      return Type::kInteger;
    case SQLITE_FLOAT:
      return Type::kReal;
    case SQLITE_TEXT:
      return Type::kText;
    case SQLITE_BLOB:
      return Type::kBlob;
    default:
      return Type::kNull;
  }
}

std::int64_t SqliteTable::integer(int column) const {
  return sqlite3_column_int64(handles_->rows, column + 1);
}

double SqliteTable::real(int column) const {
  return sqlite3_column_double(handles_->rows, column + 1);
}

std::string_view SqliteTable::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handles_->rows, column + 1));
  return text ? std::string_view(text, static_cast<std::size_t>(sqlite3_column_bytes(handles_->rows, column + 1)))
              : std::string_view();
}

}  // namespace mlx::store
