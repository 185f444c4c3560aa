// Opens the bytes with sqlite3_deserialize().
#include "store/sqlite_table.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/error.h"

namespace mlx::store {
namespace {

constexpr int kLongestValue = 16 << 20, kMostSteps = 250'000;  // bytes; instructions of a statement
constexpr std::size_t kVersionsAt = 18;                        // two bytes of the header: 2 if the file has a WAL

[[noreturn]] void fail_table(sqlite3* db, int code) {
  if ((code & 0xff) == SQLITE_NOMEM) throw std::bad_alloc();
  throw Error(ErrorKind::kCorrupt, fmt::format("sqlite: {}", db ? sqlite3_errmsg(db) : sqlite3_errstr(code)),
              "`sqlite3 FILE 'PRAGMA integrity_check'` says more");
}

std::string quoted_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

}  // namespace

struct SqliteTable::Handles {
  sqlite3* db = nullptr;
  sqlite3_stmt* rows = nullptr;

  ~Handles() {
    sqlite3_finalize(rows);
    sqlite3_close_v2(db);
  }

  void check(int code) const {
    if (code != SQLITE_OK) fail_table(db, code);
  }

  void open(ByteView file) {
    check(
        sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr));
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    for (const auto& [limit, most] :
         {std::pair(SQLITE_LIMIT_LENGTH, kLongestValue), std::pair(SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
          std::pair(SQLITE_LIMIT_EXPR_DEPTH, 50), std::pair(SQLITE_LIMIT_VDBE_OP, kMostSteps),
          std::pair(SQLITE_LIMIT_ATTACHED, 0)})
      sqlite3_limit(db, limit, most);
    auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(file.size()));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, file.data(), file.size());
    // What a WAL beside the file would add is not in it; the file alone is a whole database in the older mode.
    if (file.size() > kVersionsAt + 1) copy[kVersionsAt] = copy[kVersionsAt + 1] = 1;
    const auto size = static_cast<sqlite3_int64>(file.size());
    check(sqlite3_deserialize(db, "main", copy, size, size,
                              SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY));
    check(sqlite3_exec(db, "PRAGMA cell_size_check = ON; PRAGMA query_only = ON", nullptr, nullptr, nullptr));
  }

  sqlite3_stmt* prepare(const std::string& sql) const {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr));
    return statement;
  }

  std::vector<std::string> tables() const {
    std::vector<std::string> names;
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> list(
        prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' "
                "ESCAPE '\\' ORDER BY name"),
        sqlite3_finalize);
    int code;
    while ((code = sqlite3_step(list.get())) == SQLITE_ROW) {
      const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(list.get(), 0));
      names.emplace_back(name ? name : "");
    }
    if (code != SQLITE_DONE) fail_table(db, code);
    return names;
  }
};

SqliteTable::SqliteTable(ByteView file) : handles_(std::make_unique<Handles>()) {
  handles_->open(file);
  const std::vector<std::string> tables = handles_->tables();
  if (tables.size() != 1) {
    std::string names;
    for (const std::string& name : tables) names += (names.empty() ? ": " : ", ") + name.substr(0, 40);
    throw Error(
        ErrorKind::kUsage, fmt::format("sqlite: a file of {} tables, expected one{}", tables.size(), names),
        "write the table to a file of its own, in sqlite3: ATTACH 'train.sqlite' AS t; CREATE TABLE t.x AS SELECT …");
  }
  // An index that holds all columns would give another order.
  handles_->rows =
      handles_->prepare(fmt::format("SELECT * FROM {} NOT INDEXED LIMIT -1 OFFSET ?", quoted_name(tables[0])));
  for (int i = 0; i < sqlite3_column_count(handles_->rows); ++i)
    columns_.emplace_back(sqlite3_column_name(handles_->rows, i));
}

SqliteTable::~SqliteTable() = default;

void SqliteTable::seek(std::uint64_t row) {
  sqlite3_reset(handles_->rows);
  constexpr std::uint64_t kLast = std::numeric_limits<std::int64_t>::max();
  handles_->check(sqlite3_bind_int64(handles_->rows, 1, static_cast<std::int64_t>(row < kLast ? row : kLast)));
}

bool SqliteTable::next() {
  const int code = sqlite3_step(handles_->rows);
  if (code != SQLITE_ROW && code != SQLITE_DONE) fail_table(handles_->db, code);
  return code == SQLITE_ROW;
}

SqliteTable::Type SqliteTable::type(int column) const {
  switch (sqlite3_column_type(handles_->rows, column)) {
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
  return sqlite3_column_int64(handles_->rows, column);
}

double SqliteTable::real(int column) const {
  return sqlite3_column_double(handles_->rows, column);
}

std::string_view SqliteTable::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handles_->rows, column));
  return text ? std::string_view(text, static_cast<std::size_t>(sqlite3_column_bytes(handles_->rows, column)))
              : std::string_view();
}

}  // namespace mlx::store
