// SQLite behind mlx::Error: connections, statements, transactions and migrations. The only file that includes
// sqlite3.h.
//
// Result codes become kinds here and nowhere else: busy and locked are kConflict, a damaged file is kCorrupt, the
// disk's own failures (I/O, full, read-only, cannot open) are kIo, and anything else is our own mistake in SQL,
// reported as kIo with SQLite's text.
#include "store/sqlite.h"

#include <sqlite3.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/path.h"
#include "store/network_disk.h"
#include "store/sqlite_copy.h"

namespace mlx::store {

struct DatabaseFile {
  std::string path;
  std::optional<Error> obstacle;  // of a private copy
};

namespace {

constexpr int kBusyMillis = 30'000;

// SQLite reports a lack of room for the index of a WAL as an I/O error.
bool is_disk_full(const std::string& path) {
  struct statvfs disk {};
  return ::statvfs(parent_path(path).c_str(), &disk) == 0 && disk.f_blocks > 0 && disk.f_bavail == 0;
}

[[noreturn]] void fail_sqlite(sqlite3* db, const DatabaseFile& file, int code) {
  const std::string path = file.path.empty() ? "a temporary database (TMPDIR says where)" : file.path;
  std::string text = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  if ((code & 0xff) == SQLITE_READONLY && file.obstacle) throw Error(*file.obstacle);
  const bool full = (code & 0xff) == SQLITE_IOERR && is_disk_full(path);
  if (full) text = "the disk is full";
  switch (full ? SQLITE_FULL : code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(ErrorKind::kConflict, fmt::format("{}: in use by another process: {}", path, text),
                  "wait for the other mlx to finish, then try again");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Error(ErrorKind::kCorrupt, fmt::format("{}: {}", path, text),
                  "delete it if it is cache.db; rebuild it with `mlx fsck --rebuild` if it is meta.db");
    case SQLITE_FULL:
      throw Error(ErrorKind::kIo, fmt::format("{}: cannot write: {}", path, text),
                  "free space on that disk, as `mlx gc --yes` does, then try again");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      throw Error(ErrorKind::kIo, fmt::format("{}: {}", path, text),
                  "check that the file and its folder can be written by you");
    case SQLITE_IOERR:
      throw Error(ErrorKind::kIo, fmt::format("{}: {} (SQLite code {})", path, text, code),
                  "is the disk full? `df` tells; `mlx gc --yes` makes room");
    default:
      throw Error(ErrorKind::kIo, fmt::format("{}: {} (SQLite code {})", path, text, code));
  }
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : db_(std::exchange(other.db_, nullptr)),
      stmt_(std::exchange(other.stmt_, nullptr)),
      file_(std::move(other.file_)) {}

Statement::~Statement() {
  sqlite3_finalize(stmt_);
}

void Statement::fail(int code) const {
  fail_sqlite(db_, *file_, code);
}

bool Statement::step() {
  int code = sqlite3_step(stmt_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  // errmsg must be read before the reset that frees the statement for its next use.
  try {
    fail(code);
  } catch (...) {
    sqlite3_reset(stmt_);
    throw;
  }
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(stmt_);
  sqlite3_clear_bindings(stmt_);
}

std::int64_t Statement::int64(int column) const {
  return sqlite3_column_int64(stmt_, column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(stmt_, column);
}

std::string Statement::text(int column) const {
  const auto* text = sqlite3_column_text(stmt_, column);
  if (!text) return {};
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(sqlite3_column_bytes(stmt_, column))};
}

Bytes Statement::blob(int column) const {
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(stmt_, column));
  if (!data) return {};
  return Bytes(data, data + sqlite3_column_bytes(stmt_, column));
}

Digest Statement::digest(int column) const {
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(stmt_, column));
  auto size = static_cast<std::size_t>(sqlite3_column_bytes(stmt_, column));
  if (!data || size != sizeof(Digest::bytes)) {
    mlx::fail(ErrorKind::kCorrupt, "{}: column '{}' holds {} bytes where a digest of 32 was expected", file_->path,
              sqlite3_column_name(stmt_, column), size);
  }
  return Digest::from({data, size});
}

bool Statement::null(int column) const {
  return sqlite3_column_type(stmt_, column) == SQLITE_NULL;
}

void Statement::bind_one(int index, std::int64_t v) {
  if (int code = sqlite3_bind_int64(stmt_, index, v)) fail(code);
}

void Statement::bind_one(int index, double v) {
  if (int code = sqlite3_bind_double(stmt_, index, v)) fail(code);
}

void Statement::bind_one(int index, std::string_view v) {
  // A null pointer would bind NULL; an empty view may carry one.
  const char* data = v.data() ? v.data() : "";
  int code = sqlite3_bind_text64(stmt_, index, data, v.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code) fail(code);
}

void Statement::bind_one(int index, ByteView v) {
  int code = v.empty() ? sqlite3_bind_zeroblob(stmt_, index, 0)
                       : sqlite3_bind_blob64(stmt_, index, v.data(), v.size(), SQLITE_TRANSIENT);
  if (code) fail(code);
}

void Statement::bind_one(int index, std::nullptr_t) {
  if (int code = sqlite3_bind_null(stmt_, index)) fail(code);
}

// WAL keeps its index in shared memory. With the exclusive lock, which needs none, a database in WAL mode is changed to
// another mode; kConflict if another process has it open in WAL mode.
void Database::set_journal(Sharing sharing) {
  bool network = sharing == Sharing::kNetwork || (sharing == Sharing::kDetect && is_on_network(file_->path));
  if (!network) {
    run("PRAGMA journal_mode = WAL");
    return;
  }
  probe_locks(file_->path);
  run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; PRAGMA locking_mode = NORMAL;");
  prepare("SELECT count(*) FROM sqlite_schema").run();  // releases the exclusive lock
}

void Database::open_file(int flags, Sharing sharing, int page_size) {
  int code = sqlite3_open_v2(file_->path.c_str(), &db_, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (code != SQLITE_OK) fail_sqlite(db_, *file_, code);
  sqlite3_busy_timeout(db_, kBusyMillis);
  run(fmt::format("PRAGMA page_size = {}", page_size));
  set_journal(sharing);
  run("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;");
}

void Database::copy_file(const Error& obstacle) {
  sqlite3_close_v2(std::exchange(db_, nullptr));
  file_ = std::make_shared<DatabaseFile>(DatabaseFile{file_->path, obstacle});
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  int code = sqlite3_open_v2(":memory:", &db_, flags, nullptr);
  if (code == SQLITE_OK) code = copy_database(file_->path, db_);
  if ((code & 0xff) == SQLITE_CANTOPEN) {
    if (::access(file_->path.c_str(), R_OK) != 0) fail_errno(errno, file_->path, "read");
    throw Error(obstacle);
  }
  if (code != SQLITE_OK) fail_sqlite(nullptr, *file_, code);
  run("PRAGMA foreign_keys = ON; PRAGMA query_only = ON;");
}

// An obstacle that a look shows saves an attempt. A full disk shows only on writing: the first process that opens the
// database makes the index of its WAL beside it.
Database::Database(const std::string& path, Open how, Sharing sharing, int page_size)
    : file_(std::make_shared<DatabaseFile>(DatabaseFile{path, std::nullopt})) {
  int flags = SQLITE_OPEN_READWRITE;
  if (how == Open::kCreate) flags |= SQLITE_OPEN_CREATE;
  try {
    std::optional<Error> obstacle = obstacle_to_writing(path);
    try {
      if (!obstacle) open_file(flags, sharing, page_size);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kIo || !path_exists(path)) throw;
      obstacle = error;
    }
    if (obstacle) copy_file(*obstacle);
  } catch (...) {
    sqlite3_close_v2(std::exchange(db_, nullptr));
    throw;
  }
}

Database Database::private_copy(const std::string& path, const Error& obstacle) {
  Database database;
  database.file_ = std::make_shared<DatabaseFile>(DatabaseFile{path, std::nullopt});
  database.copy_file(obstacle);  // a throw ends `database`, and with it the connection
  return database;
}

bool Database::writable() const {
  return !file_->obstacle;
}

void Database::change_privately(const std::function<void()>& change) {
  CHECK(!writable());
  run("PRAGMA query_only = OFF");
  try {
    change();
  } catch (...) {
    run("PRAGMA query_only = ON");
    throw;
  }
  run("PRAGMA query_only = ON");
}

// close_v2: statements that outlive their database keep it alive until they are finalized.
Database::~Database() {
  sqlite3_close_v2(db_);
}

Database::Database(Database&& other) noexcept : file_(std::move(other.file_)), db_(std::exchange(other.db_, nullptr)) {}

Statement Database::prepare(std::string_view sql) {
  sqlite3_stmt* stmt = nullptr;
  int code = sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &stmt, nullptr);
  if (code != SQLITE_OK) fail_sqlite(db_, *file_, code);
  return {db_, stmt, file_};
}

void Database::run(std::string_view sql) {
  std::string text(sql);
  int code = sqlite3_exec(db_, text.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail_sqlite(db_, *file_, code);
}

std::int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(db_);
}

int Database::schema_version() {
  Statement statement = prepare("PRAGMA user_version");
  return statement.step() ? static_cast<int>(statement.int64(0)) : 0;
}

void Database::migrate(const std::vector<Migration>& migrations) {
  int newest = migrations.empty() ? 0 : migrations.back().version;
  auto refuse_newer = [&](int version) {
    if (version <= newest) return;
    throw Error(ErrorKind::kConflict,
                fmt::format("{}: has schema version {}, this mlx knows up to {}", file_->path, version, newest),
                "it was written by a newer mlx: upgrade this one");
  };
  int found = schema_version();
  refuse_newer(found);
  if (found == newest) return;
  const auto take_steps = [&] {
    for (const Migration& migration : migrations) {
      if (migration.version <= found) continue;
      Transaction transaction(*this);
      // Another process may have taken this step while we waited for the lock.
      int now = schema_version();
      refuse_newer(now);
      if (now < migration.version) {
        run(migration.sql);
        run(fmt::format("PRAGMA user_version = {}", migration.version));
      }
      transaction.commit();
    }
  };
  writable() ? take_steps() : change_privately(take_steps);
}

Transaction::Transaction(Database& db, Access access) : db_(db) {
  db_.run(access == Access::kWrite ? "BEGIN IMMEDIATE" : "BEGIN");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    db_.run("ROLLBACK");
  } catch (const Error&) {
    // SQLite has rolled back by itself (disk full, I/O error): nothing is left to undo.
  }
}

void Transaction::commit() {
  db_.run("COMMIT");
  open_ = false;
}

}  // namespace mlx::store
