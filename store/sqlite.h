// SQLite with errors as mlx::Error: connections, prepared statements, transactions, numbered migrations. This
// and sqlite_table.h, which reads files of others, are the only code that includes sqlite3.h.
//
// A Database belongs to one thread at a time. WAL, synchronous=FULL, foreign keys on, a busy timeout of 30 s (then
// kConflict). On a network file system, which has no shared memory, it uses a rollback journal instead: a transaction
// holds locks, and nobody reads while one writes.
//
// If this process cannot write an existing database (a read-only disk, another user's files, a full disk), the database
// is read into memory: a private copy of what was committed when it was opened. Writing to the copy throws an error
// that says why the database cannot be written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

struct sqlite3;
struct sqlite3_stmt;

namespace mlx::store {

struct DatabaseFile;  // its path, and why it cannot be written

class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* stmt, std::shared_ptr<const DatabaseFile> file)
      : db_(db), stmt_(stmt), file_(std::move(file)) {}
  Statement(Statement&&) noexcept;
  ~Statement();
  // Binds 1-based parameters in order.
  template <typename... Args>
  Statement& bind(const Args&... args) {
    int index = 0;
    (bind_one(++index, args), ...);
    return *this;
  }
  bool step();  // true: there is a row; false: done
  void run();   // until done, then reset for the next bind
  void reset();
  std::int64_t int64(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  Bytes blob(int column) const;
  Digest digest(int column) const;  // a 32-byte blob
  bool null(int column) const;

 private:
  void bind_one(int index, std::int64_t v);
  void bind_one(int index, int v) { bind_one(index, static_cast<std::int64_t>(v)); }
  void bind_one(int index, std::uint64_t v) { bind_one(index, static_cast<std::int64_t>(v)); }
  void bind_one(int index, bool v) { bind_one(index, static_cast<std::int64_t>(v)); }
  void bind_one(int index, double v);
  void bind_one(int index, std::string_view v);
  void bind_one(int index, const std::string& v) { bind_one(index, std::string_view(v)); }
  void bind_one(int index, const char* v) { bind_one(index, std::string_view(v)); }
  void bind_one(int index, ByteView v);
  void bind_one(int index, const Bytes& v) { bind_one(index, ByteView(v)); }
  void bind_one(int index, const Digest& v) { bind_one(index, ByteView(v.bytes)); }
  void bind_one(int index, std::nullptr_t);
  template <typename T>
  void bind_one(int index, const std::optional<T>& v) {
    if (v)
      bind_one(index, *v);
    else
      bind_one(index, nullptr);
  }
  [[noreturn]] void fail(int code) const;
  sqlite3* db_;
  sqlite3_stmt* stmt_;
  std::shared_ptr<const DatabaseFile> file_;
};

struct Migration {
  int version;      // 1, 2, 3 …
  const char* sql;  // run in one transaction with the version's step
};

class Database {
 public:
  enum class Open { kCreate, kReadWrite };
  enum class Sharing { kDetect, kLocal, kNetwork };  // who else may have it open; kDetect asks the file system
  // `page_size` is for a new file: large pages suit large values.
  Database(const std::string& path, Open how, Sharing sharing = Sharing::kDetect, int page_size = 4096);
  ~Database();
  Database(Database&&) noexcept;
  Statement prepare(std::string_view sql);
  void run(std::string_view sql);  // one or more statements without rows
  std::int64_t last_insert_id() const;
  // PRAGMA user_version up to the last migration; a newer schema is kConflict with both versions named.
  void migrate(const std::vector<Migration>& migrations);
  int schema_version();
  bool writable() const;  // false for a private copy
  // For a private copy: changes that only this process sees. migrate() does the same.
  void change_privately(const std::function<void()>& change);
  // A private copy at once, for a caller that tried to write and met `obstacle`.
  static Database private_copy(const std::string& path, const Error& obstacle);

 private:
  Database() = default;
  void open_file(int flags, Sharing sharing, int page_size);
  void copy_file(const Error& obstacle);
  void set_journal(Sharing sharing);
  std::shared_ptr<const DatabaseFile> file_;
  sqlite3* db_ = nullptr;
};

// Rolled back unless commit() was called.
class Transaction {
 public:
  enum class Access { kWrite, kRead };  // BEGIN IMMEDIATE; or one snapshot for many reads, while others write
  explicit Transaction(Database& db, Access access = Access::kWrite);
  ~Transaction();
  void commit();

 private:
  Database& db_;
  bool open_ = true;
};

}  // namespace mlx::store
