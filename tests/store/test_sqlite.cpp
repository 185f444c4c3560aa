// SQLite behind mlx::Error: values, migrations, transactions and the kinds of its errors.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
