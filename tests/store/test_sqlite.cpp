// SQLite behind mlx::Error: values, migrations, transactions and the kinds of its errors.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/fd.h"
#include "fixture.h"
#include "store/network_disk.h"
#include "store/sqlite.h"

using namespace mlx;
using namespace mlx::store;

namespace {
const std::vector<Migration> kTwo{{1, "CREATE TABLE t (a INTEGER, b REAL, c TEXT, d BLOB);"},
                                  {2, "ALTER TABLE t ADD COLUMN e;"}};
}

TEST_CASE("values go in and come out") {
  TempFolder temp;
  Database db(temp.path() + "/x.db", Database::Open::kCreate);
  db.migrate(kTwo);
  CHECK(db.schema_version() == 2);
  db.migrate(kTwo);
  Statement insert = db.prepare("INSERT INTO t VALUES (?, ?, ?, ?, ?)");
  std::string text("nul\0inside", 10);
  insert.bind(std::int64_t{-5}, 0.5, text, Digest::of("x"), std::optional<int>()).run();
  insert.bind(true, 1.0, "", Bytes(), std::optional<std::string>("e")).run();
  CHECK(db.last_insert_id() == 2);
  Statement select = db.prepare("SELECT * FROM t ORDER BY rowid");
  REQUIRE(select.step());
  CHECK(select.int64(0) == -5);
  CHECK(select.real(1) == 0.5);
  CHECK(select.text(2) == text);
  CHECK(select.digest(3) == Digest::of("x"));
  CHECK(select.null(4));
  REQUIRE(select.step());
  CHECK_FALSE(select.null(2));
  CHECK_FALSE(select.null(3));
  CHECK(select.blob(3).empty());
  CHECK(error_of([&] { select.digest(3); }) == ErrorKind::kCorrupt);
  CHECK_FALSE(select.step());
}

TEST_CASE("a transaction without commit leaves nothing") {
  TempFolder temp;
  Database db(temp.path() + "/x.db", Database::Open::kCreate);
  db.migrate(kTwo);
  {
    Transaction transaction(db);
    db.run("INSERT INTO t (a) VALUES (1)");
  }
  {
    Transaction transaction(db);
    db.run("INSERT INTO t (a) VALUES (2)");
    transaction.commit();
  }
  Statement count = db.prepare("SELECT count(*), max(a) FROM t");
  REQUIRE(count.step());
  CHECK(count.int64(0) == 1);
  CHECK(count.int64(1) == 2);
}

TEST_CASE("a failing migration leaves the version before it, a newer schema is kConflict") {
  TempFolder temp;
  std::string path = temp.path() + "/x.db";
  Database db(path, Database::Open::kCreate);
  CHECK(error_of([&] { db.migrate({kTwo[0], {2, "CREATE TABLE u (a); CREATE TABLE t (a);"}}); }).has_value());
  CHECK(db.schema_version() == 1);
  CHECK(error_of([&] { db.prepare("SELECT * FROM u"); }).has_value());
  db.migrate(kTwo);
  CHECK(error_of([&] { db.migrate({kTwo[0]}); }) == ErrorKind::kConflict);
}

TEST_CASE("a file that is no database is kCorrupt, one that cannot be opened kIo") {
  TempFolder temp;
  write_test_file(temp.path() + "/junk.db", random_bytes(8192, 1));
  CHECK(error_of([&] { Database(temp.path() + "/junk.db", Database::Open::kReadWrite); }) == ErrorKind::kCorrupt);
  CHECK(error_of([&] { Database(temp.path() + "/none.db", Database::Open::kReadWrite); }) == ErrorKind::kIo);
  CHECK(error_of([&] { Database(temp.path() + "/no/folder.db", Database::Open::kCreate); }) == ErrorKind::kIo);
}

TEST_CASE("a database on a network file system: two processes alternate without shared memory") {
  TempFolder temp;
  const std::string path = temp.path() + "/shared.db";
  {
    Database local(path, Database::Open::kCreate, Database::Sharing::kLocal);  // WAL, as a local disk has it
    local.run("CREATE TABLE t (n INTEGER)");
  }
  constexpr int kRounds = 20;
  const auto work = [&] {
    for (int round = 0; round < kRounds; ++round) {
      Database db(path, Database::Open::kReadWrite, Database::Sharing::kNetwork);
      Transaction transaction(db);
      db.run("INSERT INTO t VALUES (1)");
      transaction.commit();
      Statement count = db.prepare("SELECT count(*) FROM t");
      if (!count.step() || count.int64(0) <= round) ::_exit(1);
    }
  };
  Database held(path, Database::Open::kReadWrite, Database::Sharing::kNetwork);  // open, and no transaction in it
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    work();
    ::_exit(0);
  }
  work();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  Statement count = held.prepare("SELECT count(*) FROM t");
  REQUIRE(count.step());
  CHECK(count.int64(0) == 2 * kRounds);
  CHECK_FALSE(path_exists(path + "-shm"));
  CHECK_FALSE(path_exists(path + "-wal"));
}

TEST_CASE("this machine's temporary folder is on no network file system, and locks work there") {
  TempFolder temp;
  probe_locks(temp.path() + "/db");
  CHECK(path_exists(temp.path() + "/db-locks"));
  CHECK_FALSE(is_on_network("/proc/self/status"));
}

namespace {

// A child that commits one row into the WAL and dies without closing.
void write_and_die(const std::string& path) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Database db(path, Database::Open::kReadWrite, Database::Sharing::kLocal);
    db.run("PRAGMA wal_autocheckpoint = 0; INSERT INTO t (a) VALUES (7)");
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
}

std::int64_t newest(Database& db) {
  Statement select = db.prepare("SELECT max(a) FROM t");
  REQUIRE(select.step());
  return select.int64(0);
}

const Error kDiskFull(ErrorKind::kIo, "the disk is full");

}  // namespace

TEST_CASE("bug: a database that cannot be written is read all the same, what stands in its WAL included") {
  TempFolder temp;
  const std::string path = temp.path() + "/a b%20?#.db";
  {
    Database db(path, Database::Open::kCreate, Database::Sharing::kLocal);
    db.migrate(kTwo);
    db.run("INSERT INTO t (a) VALUES (5)");
  }
  SUBCASE("closed: neither a WAL nor shared memory") {
    const Bytes before = read_file(path);
    Database copy = Database::private_copy(path, kDiskFull);
    CHECK(newest(copy) == 5);
    CHECK(read_file(path) == before);
  }
  SUBCASE("a writer has died, and what it shared is there or not") {
    write_and_die(path);
    for (const bool shared : {true, false}) {
      if (!shared) REQUIRE(::unlink((path + "-shm").c_str()) == 0);
      Database copy = Database::private_copy(path, kDiskFull);
      CHECK(newest(copy) == 7);
    }
    Database db(path, Database::Open::kReadWrite, Database::Sharing::kLocal);
    CHECK(newest(db) == 7);
  }
  SUBCASE("beside one who writes") {
    Database db(path, Database::Open::kReadWrite, Database::Sharing::kLocal);
    db.run("INSERT INTO t (a) VALUES (8)");
    Transaction open(db);
    db.run("INSERT INTO t (a) VALUES (9)");
    Database copy = Database::private_copy(path, kDiskFull);
    CHECK(newest(copy) == 8);
    open.commit();
    CHECK(newest(copy) == 8);
  }
}

TEST_CASE("bug: a private copy takes migrations and changes for this process alone, and says why it takes no others") {
  TempFolder temp;
  const std::string path = temp.path() + "/x.db";
  Database(path, Database::Open::kCreate).migrate({kTwo[0]});
  const Bytes before = read_file(path);
  Database copy = Database::private_copy(path, kDiskFull);
  CHECK_FALSE(copy.writable());
  copy.migrate(kTwo);
  CHECK(copy.schema_version() == 2);
  copy.change_privately([&] { copy.run("INSERT INTO t (a, e) VALUES (1, 2)"); });
  CHECK(newest(copy) == 1);
  const auto refused = [&](const std::function<void()>& write) {
    try {
      write();
    } catch (const Error& error) {
      return error.message;
    }
    return std::string("taken");
  };
  CHECK(refused([&] { copy.run("INSERT INTO t (a) VALUES (2)"); }) == kDiskFull.message);
  CHECK(refused([&] { Transaction transaction(copy); }) == kDiskFull.message);
  CHECK(refused([&] { copy.prepare("DELETE FROM t").run(); }) == kDiskFull.message);
  CHECK(read_file(path) == before);
}
