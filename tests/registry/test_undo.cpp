// Undo: as if it had never been, in every clone, whatever arrives in which order.
#include "registry/record/undo.h"

#include <doctest/doctest.h>

#include "base/fd.h"
#include "fails_with.h"
#include "history_maker.h"
#include "registry/maintenance/rebuild.h"
#include "registry/sync/sync.h"
#include "registry/versions/references.h"
#include "registry/versions/rollback.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

// What listings show, without the operations themselves.
std::string shown(Repository& repo) {
  const std::string all = dump(repo);
  return all.substr(0, all.find("head "));
}

Digest last_id(Repository& repo) {
  return repo.operations().back().id;
}

void exchange(Clone& a, Clone& b) {
  bring(a.repo(), b.repo());
  bring(b.repo(), a.repo());
}

}  // namespace

TEST_CASE("undo walks back, redo walks forward, and the history keeps it all") {
  Clone c;
  std::vector<std::string> states = {shown(c.repo())};
  const Version one = make(c.repo(), "clf", "one");
  states.push_back(shown(c.repo()));
  create_tag(c.repo(), "t", one);
  states.push_back(shown(c.repo()));
  move_alias(c.repo(), "production", one);
  states.push_back(shown(c.repo()));
  const Version two = make(c.repo(), "clf", "two");
  states.push_back(shown(c.repo()));
  move_alias(c.repo(), "production", two);
  states.push_back(shown(c.repo()));
  delete_tag(c.repo(), "t", one);
  states.push_back(shown(c.repo()));
  for (std::size_t i = states.size() - 1; i-- > 0;) {
    undo(c.repo(), "", false);
    CHECK(shown(c.repo()) == states[i]);
  }
  CHECK(fails_with(ErrorKind::kNotFound, "nothing to undo", [&] { undo(c.repo(), "", false); }) == "");
  for (std::size_t i = 1; i < states.size(); ++i) {
    undo(c.repo(), "", true);
    CHECK(shown(c.repo()) == states[i]);
  }
  CHECK(fails_with(ErrorKind::kNotFound, "nothing to redo", [&] { undo(c.repo(), "", true); }) == "");
  CHECK(c.repo().operations().size() == 6 * 3);
  undo(c.repo(), "", false);
  CHECK(shown(c.repo()) == states[5]);
}

TEST_CASE("an alias goes back step by step, never to a version that it has gone back from") {
  Clone c;
  const Version one = make(c.repo(), "clf", "one"), two = make(c.repo(), "clf", "two"),
                three = make(c.repo(), "clf", "three");
  const auto planned = [&](const std::string& to) {
    return plan_rollback(c.repo(), "clf", "production", to).to.name();
  };
  const auto fails = [&](ErrorKind kind, const std::string& text, const std::string& alias, const std::string& to) {
    return fails_with(kind, text, [&] { plan_rollback(c.repo(), "clf", alias, to); });
  };
  CHECK(fails(ErrorKind::kNotFound, "has no version 'production'", "production", "") == "");
  move_alias(c.repo(), "production", one);
  CHECK(fails(ErrorKind::kNotFound, "no version before clf@v1", "production", "") == "");
  move_alias(c.repo(), "production", two);
  move_alias(c.repo(), "production", three);
  roll_back(c.repo(), "production", plan_rollback(c.repo(), "clf", "production"), "slow");
  CHECK(resolve(c.repo(), "clf@production").name() == "clf@v2");
  CHECK(alias_moves(c.repo(), "clf").back().message == "rollback from v3: slow");
  CHECK(planned("") == "clf@v1");  // and not v3
  CHECK(planned("v3") == "clf@v3");
  CHECK(planned("clf@v2") == "clf@v2");
  undo(c.repo(), "", false);
  CHECK(planned("") == "clf@v2");
  roll_back(c.repo(), "production", plan_rollback(c.repo(), "clf", "production", "v1"), "");
  CHECK(alias_moves(c.repo(), "clf").back().message == "rollback from v3");
  CHECK(fails(ErrorKind::kNotFound, "no version before clf@v1", "production", "") == "");
  const Version four = make(c.repo(), "clf", "four"), other = make(c.repo(), "lm", "other");
  create_tag(c.repo(), "t", four);
  CHECK(fails(ErrorKind::kUsage, "never named clf@v4", "production", "v4") == "");
  CHECK(fails(ErrorKind::kUsage, "no version of clf", "production", "lm@v1") == "");
  CHECK(fails(ErrorKind::kUsage, "'t' is no alias", "t", "") == "");
  CHECK(fails(ErrorKind::kUsage, "'v4' is no alias", "v4", "") == "");
  // bug: a version that was taken back came again.
  const auto moved_through = [&](const std::string& alias, const std::vector<Version>& path) {
    for (const Version& version : path) move_alias(c.repo(), alias, version);
    return plan_rollback(c.repo(), "clf", alias).to.name();
  };
  CHECK(moved_through("a", {one, two, three, two, four, three}) == "clf@v2");
  CHECK(moved_through("b", {one, two, three, two, four, two, three, four}) == "clf@v2");
  CHECK(moved_through("c", {one, three, two}) == "clf@v3");  // new to it, so it goes on
  move_alias(c.repo(), "production", two);
  const Rollback planned_before = plan_rollback(c.repo(), "clf", "production");
  move_alias(c.repo(), "production", four);  // by somebody else
  CHECK(fails_with(ErrorKind::kConflict, "was moved to another version meanwhile",
                   [&] { roll_back(c.repo(), "production", planned_before, ""); }) == "");
  CHECK(resolve(c.repo(), "clf@production").name() == "clf@v4");
}

TEST_CASE("an earlier operation can be undone if nothing builds on it") {
  Clone c;
  const Version one = make(c.repo(), "clf", "one");
  const std::string made = last_id(c.repo()).hex();
  create_tag(c.repo(), "t", one);
  const std::string tagged = last_id(c.repo()).hex();
  make(c.repo(), "other", "x");
  CHECK(fails_with(ErrorKind::kConflict, tagged.substr(0, 12), [&] { undo(c.repo(), made, false); }) == "");
  CHECK(undo(c.repo(), tagged.substr(0, 8), false).subject.kind == "tag.create");
  CHECK(undo(c.repo(), tagged, false).unchanged);
  undo(c.repo(), made, false);
  CHECK(versions(c.repo(), "clf").empty());
  CHECK(versions(c.repo(), "other").size() == 1);
  // Bringing the tag back needs its version.
  CHECK(fails_with(ErrorKind::kConflict, "taken back",
                   [&] { undo(c.repo(), c.repo().operations()[3].id.hex(), false); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "8 hex digits", [&] { undo(c.repo(), "xyz", false); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, "begins with", [&] { undo(c.repo(), "0123456789abcdef", false); }) == "");
}

TEST_CASE("only the last move of an alias is taken back, and runs never are") {
  Clone c;
  const Version one = make(c.repo(), "clf", "one"), two = make(c.repo(), "clf", "two");
  move_alias(c.repo(), "production", one);
  const std::string first = last_id(c.repo()).hex();
  move_alias(c.repo(), "production", two);
  CHECK(fails_with(ErrorKind::kConflict, "came later", [&] { undo(c.repo(), first, false); }) == "");
  const std::string run = start_run(c.repo(), run_start("train", "key"));
  CHECK(fails_with(ErrorKind::kRefused, "record of a run", [&] { undo(c.repo(), "", false); }) == "");
  end_run(c.repo(), run, RunStatus::kDone, {{"model", two.digest}}, Json::object());
  undo(c.repo(), c.repo().operations()[3].id.hex(), false);
  CHECK(resolve(c.repo(), "clf@production").digest == one.digest);
  CHECK(fails_with(ErrorKind::kConflict, "what a run used or made stays",
                   [&] { undo(c.repo(), c.repo().operations()[1].id.hex(), false); }) == "");
}

TEST_CASE("another clone's operations can only be undone there") {
  Clone a, b;
  make(a.repo(), "clf", "one");
  bring(a.repo(), b.repo());
  CHECK(fails_with(ErrorKind::kRefused, "another clone", [&] { undo(b.repo(), last_id(b.repo()).hex(), false); }) ==
        "");
  CHECK(fails_with(ErrorKind::kNotFound, "nothing to undo", [&] { undo(b.repo(), "", false); }) == "");
  undo(a.repo(), "", false);
  bring(a.repo(), b.repo());
  CHECK(versions(b.repo(), "clf").empty());
}

TEST_CASE("an operation that somebody built on without knowing of its undo stays in force everywhere") {
  Clone a, b;
  const Version one = make(a.repo(), "clf", "one");
  exchange(a, b);
  undo(a.repo(), "", false);
  CHECK(versions(a.repo()).empty());
  SUBCASE("a tag on a version") {
    create_tag(b.repo(), "paper", one);
  }
  SUBCASE("a run with it") {
    RunStart start = run_start("eval", "key");
    start.inputs.emplace_back("model", one.digest);
    start_run(b.repo(), start);
  }
  SUBCASE("a version made from it") {
    NewVersion next = new_version(b.repo(), "clf", "two");
    next.parent = one.digest;
    create_version(b.repo(), next);
  }
  exchange(a, b);
  CHECK(version_of(a.repo(), "clf", one.digest));
  CHECK(dump(a.repo()) == dump(b.repo()));
  // Who knows of it can not build on it.
  Clone d, e;
  const Version other = make(d.repo(), "clf", "one");
  exchange(d, e);
  undo(d.repo(), "", false);
  exchange(d, e);
  CHECK(fails_with(ErrorKind::kUsage, "not committed", [&] { create_tag(e.repo(), "paper", other); }) == "");
}

TEST_CASE("an alias that was moved on without knowing of the undo keeps both moves") {
  Clone a, b;
  const Version one = make(a.repo(), "clf", "one"), two = make(a.repo(), "clf", "two");
  move_alias(a.repo(), "production", one);
  exchange(a, b);
  undo(a.repo(), "", false);
  move_alias(b.repo(), "production", two);
  exchange(a, b);
  CHECK(dump(a.repo()) == dump(b.repo()));
  CHECK(resolve(a.repo(), "clf@production").digest == two.digest);
  CHECK(alias_moves(a.repo()).size() == 2);
}

TEST_CASE("a tag that two clones gave to different versions is resolved by deleting one") {
  Clone a, b;
  const Version one = make(a.repo(), "clf", "one"), two = make(a.repo(), "clf", "two");
  exchange(a, b);
  create_tag(a.repo(), "paper", one);
  create_tag(b.repo(), "paper", two);
  exchange(a, b);
  CHECK(fails_with(ErrorKind::kConflict, "mlx tag -d paper clf@vN", [&] { resolve(a.repo(), "clf@paper"); }) == "");
  SUBCASE("by anyone") {
    CHECK(delete_tag(a.repo(), "paper", two));
    CHECK_FALSE(delete_tag(a.repo(), "paper", two));
    exchange(a, b);
    CHECK(resolve(b.repo(), "clf@paper").digest == one.digest);
  }
  SUBCASE("by undoing one's own") {
    undo(a.repo(), "", false);
    exchange(a, b);
    CHECK(resolve(b.repo(), "clf@paper").digest == two.digest);
  }
  CHECK(dump(a.repo()) == dump(b.repo()));
}

TEST_CASE("the number of an undone version is given again only if nobody has seen it") {
  Clone a, b;
  make(a.repo(), "clf", "one");
  make(a.repo(), "clf", "two");
  undo(a.repo(), "", false);
  CHECK(make(a.repo(), "clf", "three").number == 2);
  exchange(a, b);
  const auto batch = a.repo().store().begin();  // what push does
  for (const Operation& operation : a.repo().operations()) batch->add(store::ObjectKind::kOperation, encode(operation));
  batch->commit();
  undo(a.repo(), "", false);
  CHECK(make(a.repo(), "clf", "four").number == 3);
  undo(a.repo(), "", false);
  exchange(a, b);
  CHECK(make(b.repo(), "clf", "five").number == 4);
}

TEST_CASE("random histories with undo agree in every clone and rebuild to the same" * doctest::test_suite("long")) {
  int undone = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    INFO("seed ", seed);
    Clone a, b;
    HistoryMaker maker(900 + seed);
    for (int round = 0; round < 4; ++round) {
      maker.make(a.repo(), 8);
      maker.make(b.repo(), 8);
      if (round % 2 == 0) exchange(a, b);
    }
    exchange(a, b);
    const std::string merged = dump(a.repo());
    CHECK(dump(b.repo()) == merged);
    NoProgress quiet;
    rebuild_database(a.root, *a.disk, a.pool, quiet);
    CHECK(dump(a.repo()) == merged);
    undone += maker.undone;
  }
  CHECK(undone > 5);
}

TEST_CASE("bug: undo after a redo undid another operation than the one redone") {
  Clone c;
  const Version one = make(c.repo(), "clf", "one");
  create_tag(c.repo(), "early", one);
  const std::string early = last_id(c.repo()).hex();
  create_tag(c.repo(), "late", one);
  undo(c.repo(), early, false);
  undo(c.repo(), "", true);
  CHECK(undo(c.repo(), "", false).subject.id.hex() == early);
  CHECK(undo(c.repo(), "", true).subject.id.hex() == early);
  // By the id of the undo too, and again and again.
  undo(c.repo(), "", false);
  undo(c.repo(), last_id(c.repo()).hex(), false);
  CHECK(undo(c.repo(), "", false).subject.id.hex() == early);
  CHECK(undo(c.repo(), "", false).subject.id.hex() != early);
}
