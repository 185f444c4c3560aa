// Three ways to read a database without writing beside it. Who shares a WAL finds its index in PATH-shm:
// - where that stands, or none is needed, SQLite's own read-only connection: it takes the locks that writers respect;
// - if it does not and cannot be made, nobody has the database open, and the index of PATH-wal is made in the memory
//   of this process alone, as SQLite does in exclusive mode;
// - if there is no PATH-wal either, the file is all there is.
// The second and third take no locks. So the files are looked at before and after: where a writer came meanwhile, the
// copy is thrown away and made again.
#include "store/sqlite_copy.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <tuple>

#include "base/path.h"

namespace mlx::store {

namespace {

constexpr int kAttempts = 50;
constexpr std::chrono::milliseconds kPause{20};
constexpr int kLockMillis = 30'000;

using Connection = std::unique_ptr<sqlite3, decltype(&sqlite3_close_v2)>;

struct FileLook {
  bool there = false;
  std::tuple<ino_t, off_t, std::int64_t, std::int64_t> stamp;
  bool operator==(const FileLook&) const = default;
};

FileLook look_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {true, {status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec}};
}

struct Look {
  FileLook file, wal, journal;
  bool operator==(const Look&) const = default;
  bool has_wal() const { return wal.there && std::get<1>(wal.stamp) > 0; }
};

Look look_around(const std::string& path) {
  return {look_at(path), look_at(path + "-wal"), look_at(path + "-journal")};
}

// SQLite's URI for a file, with special characters escaped.
std::string uri_of(const std::string& path, std::string_view parameters) {
  std::string uri = "file:";
  for (const char c : absolute_path(path)) {
    if (std::string_view("%?#").find(c) == std::string_view::npos)
      uri += c;
    else
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return fmt::format("{}?{}", uri, parameters);
}

// One transaction of reading; nothing is written to the source, not even when it is closed.
int copy_through(const std::string& path, std::string_view parameters, const char* settings, sqlite3* into) {
  sqlite3* opened = nullptr;
  int code =
      sqlite3_open_v2(uri_of(path, parameters).c_str(), &opened,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  const Connection from(opened, sqlite3_close_v2);
  if (code != SQLITE_OK) return code;
  sqlite3_busy_timeout(opened, kLockMillis);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  code = sqlite3_exec(opened, settings, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return code;
  sqlite3_backup* const backup = sqlite3_backup_init(into, "main", opened, "main");
  if (backup == nullptr) return sqlite3_extended_errcode(into);
  sqlite3_backup_step(backup, -1);
  return sqlite3_backup_finish(backup);
}

bool is_no_way(int code) {
  const int kind = code & 0xff;
  return kind == SQLITE_CANTOPEN || kind == SQLITE_READONLY || kind == SQLITE_IOERR || kind == SQLITE_FULL;
}

int copy_without_locks(const std::string& path, const Look& look, sqlite3* into) {
  if (look.journal.there) return SQLITE_CANTOPEN;  // the file holds half a transaction, which cannot be rolled back
  if (look.has_wal()) return copy_through(path, "vfs=unix-none", "PRAGMA locking_mode = EXCLUSIVE", into);
  return copy_through(path, "immutable=1", "", into);
}

}  // namespace

std::optional<Error> obstacle_to_writing(const std::string& path) {
  if (path.empty() || path == ":memory:" || ::access(path.c_str(), F_OK) != 0) return std::nullopt;
  for (const std::string& needed : {path, parent_path(path)}) {
    if (::faccessat(AT_FDCWD, needed.c_str(), W_OK, AT_EACCESS) == 0) continue;
    try {
      fail_errno(errno, needed, "write");
    } catch (const Error& error) {
      return error;
    }
  }
  return std::nullopt;
}

int copy_database(const std::string& path, sqlite3* into) {
  int code = SQLITE_OK;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Look before = look_around(path);
    code = copy_through(path, "mode=ro", "", into);
    if (!is_no_way(code)) return code;
    code = copy_without_locks(path, before, into);
    if (look_around(path) == before) return code;
    std::this_thread::sleep_for(kPause);
  }
  return code == SQLITE_OK ? SQLITE_BUSY : code;
}

}  // namespace mlx::store
