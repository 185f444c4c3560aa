// meta.db from operations alone: after random histories of one clone and of clones that merged, whatever happened to
// the file.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/fd.h"
#include "fails_with.h"
#include "history_maker.h"
#include "registry/keys/trust.h"
#include "registry/maintenance/check_metadata.h"
#include "registry/maintenance/gc.h"
#include "registry/maintenance/rebuild.h"
#include "registry/operations/history.h"
#include "registry/sync/numbers.h"
#include "registry/sync/sync.h"
#include "registry/sync/unpublished.h"
#include "store/journal.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

class Warnings final : public Progress {
 public:
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t) override {}
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view text) override { lines.emplace_back(text); }
  std::vector<std::string> lines;
};

void remove_database(Clone& c) {
  for (const char* suffix : {"", "-wal", "-shm"}) remove_tree(c.path(std::string(".mlx/meta.db") + suffix));
}

void rebuild(Clone& c) {
  NoProgress quiet;
  rebuild_database(c.root, *c.disk, c.pool, quiet);
}

}  // namespace

TEST_CASE("a random history is rebuilt completely from operations alone") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    INFO("seed ", seed);
    Clone c;
    HistoryMaker(seed).make(c.repo(), 40);
    const std::string before = dump(c.repo());
    rebuild(c);  // in place, under an open repository
    CHECK(dump(c.repo()) == before);
    c.close();
    remove_database(c);
    rebuild(c);
    c.open();
    CHECK(dump(c.repo()) == before);
  }
}

TEST_CASE("a database that is not one is set aside") {
  Clone c;
  HistoryMaker(5).make(c.repo(), 20);
  const std::string before = dump(c.repo());
  c.close();
  const std::string path = c.path(".mlx/meta.db"), whole = read_text(path);
  SUBCASE("garbage") {
    write_file_atomically(path, std::string(20000, 'x'));
  }
  SUBCASE("cut off") {
    write_file_atomically(path, whole.substr(0, whole.size() / 2 + 100));
  }
  SUBCASE("damaged inside") {
    std::string damaged = whole;
    for (std::size_t at = 4096; at + 64 < damaged.size(); at += 4096) damaged.replace(at, 64, std::string(64, '\xA5'));
    write_file_atomically(path, damaged);
  }
  Warnings warnings;
  rebuild_database(c.root, *c.disk, c.pool, warnings);
  REQUIRE(warnings.lines.size() == 1);
  CHECK(warnings.lines[0].find("meta.db.damaged-1") != std::string::npos);
  CHECK(path_exists(path + ".damaged-1"));
  c.open();
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("an empty file for a database is filled again") {
  Clone c;
  HistoryMaker(6).make(c.repo(), 10);
  const std::string before = dump(c.repo());
  c.close();
  remove_database(c);
  write_file_atomically(c.path(".mlx/meta.db"), "");
  rebuild(c);
  c.open();
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("a damaged journal is written again from the database") {
  Clone c;
  HistoryMaker(7).make(c.repo(), 20);
  const std::string before = dump(c.repo());
  c.close();
  std::string journal = read_text(c.path(".mlx/journal"));
  journal[journal.size() / 2] = static_cast<char>(~journal[journal.size() / 2]);
  write_file_atomically(c.path(".mlx/journal"), journal);
  Warnings warnings;
  rebuild_database(c.root, *c.disk, c.pool, warnings);
  CHECK(warnings.lines.size() == 2);
  remove_database(c);
  rebuild(c);
  c.open();
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("metrics of a running run survive a rebuild in place and a merge that reorders") {
  Clone a, b;
  make(a.repo(), "clf", "root");
  bring(a.repo(), b.repo());
  make(b.repo(), "clf", "theirs");
  const std::string run = start_run(a.repo(), run_start("train", "key"));
  log_metrics(a.repo(), run, {{1, "loss", 0.5, 1}, {2, "loss", 0.25, 2}});
  rebuild(a);
  CHECK(metrics(a.repo(), run).size() == 2);
  bring(b.repo(), a.repo());
  CHECK(a.repo().heads().size() == 2);
  CHECK(metrics(a.repo(), run).size() == 2);
  log_metrics(a.repo(), run, {{3, "loss", 0.125, 3}});
  end_run(a.repo(), run, RunStatus::kDone, {}, Json::object());
  CHECK(a.repo().heads().size() == 1);
  CHECK(metrics(a.repo(), run).size() == 3);
}

TEST_CASE("bug: without database and journal fsck found no problem, and the versions were garbage") {
  Clone c;
  NoProgress quiet;
  HistoryMaker(8).make(c.repo(), 10);
  const std::string before = dump(c.repo());
  push(c.repo(), {"origin", join_path(c.folder.path(), "origin")}, quiet);  // seals the operations into packs
  c.close();
  remove_database(c);
  remove_tree(c.path(".mlx/journal"));
  SUBCASE("an empty database takes its place") {}
  SUBCASE("mlx init makes one") {
    Repository::init(c.root, *c.disk);
  }
  c.open();
  const MetadataCheck check = check_metadata(c.repo());
  CHECK_FALSE(check.problems.empty());
  CHECK(check.rebuild);
  CHECK(fails_with(ErrorKind::kCorrupt, "fsck --rebuild",
                   [&] { collect_garbage(c.repo(), {.grace_seconds = 0, .remove = true}, quiet); }) == "");
  c.close();
  rebuild(c);
  c.open();
  CHECK(check_metadata(c.repo()).problems.empty());
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("bug: a lost history passed for one that never existed") {
  Clone c;
  NoProgress quiet;
  make(c.repo(), "clf", "root");
  c.close();
  remove_database(c);
  remove_tree(c.path(".mlx/journal"));
  c.open();
  CHECK(fails_with(ErrorKind::kCorrupt, "fsck --rebuild", [&] { make(c.repo(), "clf", "another"); }) == "");
  c.close();
  rebuild(c);  // finds nothing, and no remote is named: it begins anew
  c.open();
  make(c.repo(), "clf", "another");  // does not make it known
  CHECK_FALSE(check_metadata(c.repo()).problems.empty());
  CHECK_THROWS_AS(collect_garbage(c.repo(), {.grace_seconds = 0, .remove = true}, quiet), Error);
}

TEST_CASE("bug: without a database a journal with a torn or damaged end passed for the whole history") {
  Clone c;
  NoProgress quiet;
  for (int i = 0; i < 4; ++i) make(c.repo(), "clf", fmt::format("version {}", i));
  const std::string before = dump(c.repo()), folder = c.path(".mlx/packs"), journal = c.path(".mlx/journal");
  const auto packs_in = [](const std::string& there) {
    std::vector<std::string> names = list_folder(there);
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".pack"); });
    return names;
  };
  const std::vector<std::string> packs = packs_in(folder);
  const std::vector<Operation> operations = c.repo().operations();
  c.close();
  const std::string whole = read_text(journal);
  const auto half = static_cast<std::ptrdiff_t>(whole.size() / 2);
  std::string text = whole;
  bool whole_beginning = true;
  SUBCASE("empty") {
    text.clear();
  }
  SUBCASE("a part of the header") {
    text.resize(7);
  }
  SUBCASE("the header alone") {
    text.resize(16);
  }
  SUBCASE("cut off") {
    text.resize(whole.size() / 2);
  }
  SUBCASE("less one byte") {
    text.pop_back();
  }
  SUBCASE("zeros from the middle on") {
    std::fill(text.begin() + half, text.end(), '\0');
  }
  SUBCASE("flipped at the end") {
    text[text.size() - 3] = static_cast<char>(~text[text.size() - 3]);
  }
  SUBCASE("flipped in the middle") {
    text[whole.size() / 2] = static_cast<char>(~text[whole.size() / 2]);
    whole_beginning = false;  // and it cannot be opened before it was rebuilt
  }
  remove_database(c);
  write_file_atomically(journal, text);
  const auto is_told = [&] {
    CHECK_FALSE(check_metadata(c.repo()).problems.empty());
    CHECK(fails_with(ErrorKind::kCorrupt, "`mlx pull`",
                     [&] { collect_garbage(c.repo(), {.grace_seconds = 0, .remove = true}, quiet); }) == "");
    CHECK(std::ranges::includes(packs_in(folder), packs));
  };
  if (whole_beginning) {
    c.open();
    is_told();
    CHECK(fails_with(ErrorKind::kCorrupt, "`mlx pull`", [&] { make(c.repo(), "clf", "another"); }) == "");
    c.close();
  } else {
    CHECK_THROWS_AS(c.open(), Error);
    c.close();
  }
  for (int again = 0; again < 2; ++again) {
    rebuild(c);  // work goes on with what is left, and gc keeps what is stored
    c.open();
    is_told();
    c.close();
  }
  c.open();
  c.repo().merge(operations);  // as a fetch does
  CHECK(check_metadata(c.repo()).problems.empty());
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("bug: a rebuild left out an operation that it could not apply, and fsck reported no problem") {
  Clone c;
  make(c.repo(), "clf", "root");
  const std::string journal = c.path(".mlx/journal");
  Operation early = c.repo().operations().at(0);
  early.parents = {early.id};
  early.time = -1;
  const Digest id = store::Journal(journal, *c.disk).append(encode(early));
  c.close();
  Warnings warnings;
  rebuild_database(c.root, *c.disk, c.pool, warnings);
  CHECK(std::ranges::any_of(warnings.lines, [&](const std::string& line) {
    return line.find(id.brief()) != std::string::npos && line.find("left out") != std::string::npos;
  }));
  for (int again = 0; again < 2; ++again) {
    c.open();
    const std::vector<std::string> problems = check_metadata(c.repo()).problems;
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].find(id.brief()) != std::string::npos);
    CHECK(problems[0].find("cannot be applied") != std::string::npos);
    CHECK(versions(c.repo()).size() == 1);
    c.close();
    rebuild(c);
  }
}

TEST_CASE("a remote lacks what its heads do not reach, in a history that diverged") {
  Clone a, b;
  HistoryMaker maker(7);
  maker.make(a.repo(), 8);
  for (int round = 0; round < 3; ++round) {
    bring(a.repo(), b.repo());
    maker.make(a.repo(), 5);
    maker.make(b.repo(), 5);
    bring(b.repo(), a.repo());
  }
  const std::vector<Operation> all = a.repo().operations();
  const auto parents_of = [&](const Digest& id) { return std::optional(select_parents(a.repo().db(), id)); };
  CHECK(beyond(a.repo(), {}).operations.size() == all.size());
  for (std::size_t i = 0; i < all.size(); i += 3) {
    const std::vector<Digest> heads = {all[i].id, all[all.size() - 1 - i / 2].id, Digest::of("of somebody else")};
    const DigestSet reached = with_ancestors({heads[0], heads[1]}, parents_of);
    std::vector<Digest> lacking, expected;
    beyond(a.repo(), heads).operations.visit_ids([&](const Digest& id) { lacking.push_back(id); });
    for (const Operation& operation : all) {
      if (!reached.contains(operation.id)) expected.push_back(operation.id);
    }
    CHECK(lacking == expected);
  }
}

TEST_CASE("merged clones show the same, whatever the order of arrival, and rebuild to it") {
  for (unsigned seed = 1; seed <= 2; ++seed) {
    INFO("seed ", seed);
    Clone a, b;
    HistoryMaker maker(100 + seed);
    maker.make(a.repo(), 10);
    bring(a.repo(), b.repo());
    for (int round = 0; round < 3; ++round) {
      maker.make(a.repo(), 6);
      maker.make(b.repo(), 6);
      if (round % 2 == 0) bring(a.repo(), b.repo());
      bring(b.repo(), a.repo());
    }
    bring(a.repo(), b.repo());
    bring(b.repo(), a.repo());
    try {
      settle_numbers(a.repo(), true);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kConflict);  // an alias moved on both sides stays to be settled by hand
      CHECK(error.message.find("moved on both sides") != std::string::npos);
    }
    bring(a.repo(), b.repo());
    const std::string merged = dump(a.repo());
    CHECK(dump(b.repo()) == merged);
    rebuild(a);
    CHECK(dump(a.repo()) == merged);
    b.close();
    remove_database(b);
    rebuild(b);
    b.open();
    CHECK(dump(b.repo()) == merged);
  }
}

TEST_CASE("operations without their ancestors are refused, and nothing is changed") {
  Clone a, b;
  make(a.repo(), "clf", "one");
  make(a.repo(), "clf", "two");
  const std::string before = dump(b.repo());
  CHECK(fails_with(ErrorKind::kCorrupt, "parent", [&] { b.repo().merge({a.repo().operations()[1]}); }) == "");
  CHECK(dump(b.repo()) == before);
}
