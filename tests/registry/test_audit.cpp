// Whatever is altered, removed or reordered is found and named, and a healthy history has no problem.
#include "registry/maintenance/audit.h"

#include <doctest/doctest.h>

#include "base/fd.h"
#include "base/json.h"
#include "fails_with.h"
#include "history_maker.h"
#include "registry/operations/history.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/references.h"
#include "store/journal.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

AuditReport verify(Clone& c) {
  NoProgress quiet;
  return verify_history(c.root, *c.disk, c.pool, quiet);
}

// "" where the problems hold these words; otherwise what was found.
std::string finds(Clone& c, const std::string& words) {
  std::string all;
  for (const std::string& problem : verify(c).problems) all += problem + "\n";
  return all.find(words) != std::string::npos ? "" : "found: " + all;
}

// With what every kind of operation makes, a run that goes on, and an undo.
struct Audited : Clone {
  Audited() {
    HistoryMaker(11).make(repo(), 25);
    const Version version = make(repo(), "data/x", "one", ArtifactKind::kDataset);
    create_tag(repo(), "paper", version);
    undo(repo(), "", false);
    log_metrics(repo(), start_run(repo(), run_start("train", "key")), {{1, "loss", 0.5, 1}});
  }
  void sql(const std::string& text) { repo().db().run(text); }
  std::string journal_file() const { return path(".mlx/journal"); }
};

std::vector<Bytes> journal_of(Audited& c) {
  std::vector<Bytes> all;
  store::Journal(c.journal_file(), *c.disk).visit([&](const Digest&, ByteView bytes) {
    all.emplace_back(bytes.begin(), bytes.end());
  });
  return all;
}

// As someone would who knows the format: every checksum is right.
void write_journal(Audited& c, const std::vector<Bytes>& operations) {
  remove_tree(c.journal_file());
  for (const Bytes& one : operations) store::Journal(c.journal_file(), *c.disk).append(one);
}

}  // namespace

TEST_CASE("bug: the audit reported a lost history as unaltered") {
  Audited c;
  CHECK_FALSE(verify(c).history_lost);
  c.close();
  for (const char* suffix : {"", "-wal", "-shm"}) remove_tree(c.path(std::string(".mlx/meta.db") + suffix));
  remove_tree(c.journal_file());
  CHECK(fails_with(ErrorKind::kCorrupt, "fsck --rebuild", [&] { (void)verify(c); }) == "");
  c.open();
  CHECK(verify(c).history_lost);
  CHECK(finds(c, "was lost together with the journal") == "");
}

TEST_CASE("bug: a fetch during a training removed its metrics, and the audit reported them as altered") {
  Clone a, b;
  make(a.repo(), "clf", "root");
  bring(a.repo(), b.repo());
  make(b.repo(), "clf", "theirs");
  (void)a.repo().store().stat();  // the one that fetches sees what is there now
  std::string run;
  {
    Pool pool(1);
    Repository training = open_repository(a.root, *a.disk, pool);
    run = start_run(training, run_start("train", "key"));
    log_metrics(training, run, {{1, "loss", 0.5, 1}, {2, "loss", 0.25, 2}});
    end_run(training, run, RunStatus::kDone, {}, Json::object());
  }
  a.repo().merge(b.repo().operations());  // diverged: everything is applied again
  store::Statement rows = a.repo().db().prepare("SELECT count(*) FROM metrics");
  REQUIRE(rows.step());
  CHECK(rows.int64(0) == 2);
  CHECK(verify(a).problems.empty());
  // Without rows the sealed series is read: nothing was altered.
  a.repo().db().run("DELETE FROM metrics");
  CHECK(metrics(a.repo(), run).size() == 2);
  CHECK(verify(a).problems.empty());
}

TEST_CASE("a healthy history has no problem, whatever its contents") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Clone a, b;
    HistoryMaker maker(500 + seed);
    maker.make(a.repo(), 10);
    bring(a.repo(), b.repo());
    maker.make(a.repo(), 10);
    maker.make(b.repo(), 10);
    bring(b.repo(), a.repo());
    const AuditReport report = verify(a);
    CHECK(report.problems == std::vector<std::string>{});
    CHECK(report.operations == a.repo().operations().size());
    CHECK(report.heads == a.repo().heads());
    CHECK(report.rows > 100);
  }
  Audited c;
  CHECK(verify(c).problems == std::vector<std::string>{});
}

TEST_CASE("rows of operations that were altered, removed or reordered") {
  Audited c;
  SUBCASE("a byte") {
    c.sql(
        "UPDATE operations SET bytes = CAST(replace(CAST(bytes AS TEXT), 'made of one', 'made of two') AS BLOB)"
        " WHERE kind = 'version.create' AND CAST(bytes AS TEXT) LIKE '%made of one%'");
    CHECK(finds(c, "its bytes were altered") == "");
  }
  SUBCASE("a time in a column") {
    c.sql("UPDATE operations SET time = time + 1 WHERE seq = 3");
    CHECK(finds(c, "operations: row 3") == "");
  }
  SUBCASE("no operation at all") {
    c.sql("UPDATE operations SET bytes = x'00' WHERE seq = 3");
    CHECK(finds(c, "operations: row 3: was altered") == "");
  }
  SUBCASE("removed from the middle") {
    c.sql("DELETE FROM operations WHERE seq = 4");
    CHECK(finds(c, "was removed: the journal has it") == "");
    CHECK(finds(c, "comes after it") == "");
  }
  SUBCASE("removed from the end") {
    c.sql("DELETE FROM operations WHERE seq = (SELECT max(seq) FROM operations)");
    CHECK(finds(c, "was removed: the journal has it") == "");
  }
  SUBCASE("reordered") {
    c.sql(
        "UPDATE operations SET seq = -1 WHERE seq = 5; UPDATE operations SET seq = 5 WHERE seq = 6;"
        "UPDATE operations SET seq = 6 WHERE seq = -1");
    CHECK(finds(c, "rows were reordered") == "");
  }
}

TEST_CASE("rows of tables that are made from operations" * doctest::test_suite("long")) {
  Audited c;
  SUBCASE("a message") {
    c.sql("UPDATE version_makers SET message = 'never said' WHERE message = 'made of one'");
    CHECK(finds(c, "version_makers: operation=") == "");
    CHECK(finds(c, "never said") == "");
  }
  SUBCASE("an alias that nobody moved") {
    c.sql("INSERT INTO aliases VALUES ('data/x', 'production', x'00', x'00', 'someone', 1)");
    CHECK(finds(c, "aliases: artifact='data/x'") == "");
  }
  SUBCASE("a run that is gone") {
    c.sql("DELETE FROM runs WHERE seq = (SELECT min(seq) FROM runs)");
    CHECK(finds(c, "runs: seq=") == "");
    CHECK(finds(c, "is missing") == "");
  }
  SUBCASE("a figure of a run that has ended") {
    c.sql(
        "UPDATE metrics SET value = 0.125 WHERE series = (SELECT s.id FROM metric_series s JOIN runs"
        " r ON r.id = s.run WHERE r.status = 'done' LIMIT 1)");
    CHECK(finds(c, "metrics: run=") == "");
  }
  SUBCASE("an undo that is forgotten") {
    c.sql("DELETE FROM undone");
    CHECK(finds(c, "undone: operation=") == "");
  }
  SUBCASE("a head") {
    c.sql("DELETE FROM heads");
    CHECK(finds(c, "heads: id=") == "");
  }
  SUBCASE("a trigger") {
    c.sql("CREATE TRIGGER sly AFTER INSERT ON tags BEGIN DELETE FROM tags; END");
    CHECK(finds(c, "schema: trigger sly") == "");
  }
}

TEST_CASE("a journal that was cut off, edited or reordered") {
  Audited c;
  std::vector<Bytes> operations = journal_of(c);
  REQUIRE(operations.size() > 10);
  SUBCASE("cut off") {
    operations.resize(operations.size() - 2);
    write_journal(c, operations);
    CHECK(finds(c, "journal: operation") == "");
    CHECK(finds(c, "its end was cut off") == "");
  }
  SUBCASE("one taken out") {
    operations.erase(operations.begin() + 5);
    write_journal(c, operations);
    CHECK(finds(c, "was removed") == "");
  }
  SUBCASE("reordered") {
    std::swap(operations[4], operations[5]);
    write_journal(c, operations);
    CHECK(finds(c, "comes before its parent") == "");
  }
  SUBCASE("edited") {
    std::string text(operations[3].begin(), operations[3].end());
    const std::size_t at = text.find("\"time\":") + 8;
    text[at] = text[at] == '1' ? '2' : '1';
    operations[3].assign(text.begin(), text.end());
    write_journal(c, operations);
    CHECK(finds(c, "was removed") == "");
  }
  SUBCASE("a flipped byte") {
    std::string file = read_text(c.journal_file());
    file[file.size() / 2] = static_cast<char>(~file[file.size() / 2]);
    write_file_atomically(c.journal_file(), file);
    CHECK(finds(c, "journal: ") == "");
  }
}

TEST_CASE("what a crash left in the journal is not a problem") {
  Audited c;
  Operation next;
  next.kind = "tag.create";
  next.parents = c.repo().heads();
  next.actor = c.repo().actor();
  next.time = c.repo().operations().back().time + 1;
  const Version version = versions(c.repo(), "data/x").front();
  next.body = canonical(Json{{"artifact", "data/x"}, {"digest", version.digest.text()}, {"tag", "late"}});
  store::Journal(c.journal_file(), *c.disk).append(encode(signed_by(c.repo(), next)));
  CHECK(verify(c).problems == std::vector<std::string>{});
  c.open();
  CHECK(resolve(c.repo(), "data/x@late").digest == version.digest);
  CHECK(verify(c).problems == std::vector<std::string>{});
}
