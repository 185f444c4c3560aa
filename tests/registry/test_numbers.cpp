// What two clones did to the same names: numbers, aliases, tags.
#include <doctest/doctest.h>

#include "fails_with.h"
#include "history_maker.h"
#include "registry/record/undo.h"
#include "registry/sync/numbers.h"
#include "registry/sync/sync.h"
#include "registry/versions/references.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

struct Pair {
  Clone a, b;
  Version v1;
  Pair() : v1(make(a.repo(), "clf", "one")) { bring(a.repo(), b.repo()); }
  void exchange() {
    bring(a.repo(), b.repo());
    bring(b.repo(), a.repo());
  }
  // clf@production is v2 in a and v3 in b, and both know it.
  std::pair<Version, Version> move_on_both_sides() {
    const Version v2 = make(a.repo(), "clf", "two"), v3 = make(a.repo(), "clf", "three");
    bring(a.repo(), b.repo());
    move_alias(a.repo(), "production", v2);
    move_alias(b.repo(), "production", v3);
    exchange();
    return {v2, v3};
  }
};

}  // namespace

TEST_CASE("a number that both clones gave is a conflict until the local one gets another") {
  Pair p;
  const Version ours = make(p.a.repo(), "clf", "ours"), theirs = make(p.b.repo(), "clf", "theirs");
  CHECK(ours.number == 2);
  CHECK(theirs.number == 2);
  bring(p.b.repo(), p.a.repo());
  CHECK(versions(p.a.repo(), "clf").size() == 3);
  CHECK(fails_with(ErrorKind::kConflict, "--renumber", [&] { settle_numbers(p.a.repo(), false); }) == "");
  CHECK(fails_with(ErrorKind::kConflict, "--renumber", [&] { resolve(p.a.repo(), "clf@v2"); }) == "");
  CHECK(resolve(p.a.repo(), "clf@" + ours.digest.hex()).digest == ours.digest);
  settle_numbers(p.a.repo(), true);
  CHECK(resolve(p.a.repo(), "clf@v2").digest == theirs.digest);
  CHECK(resolve(p.a.repo(), "clf@v3").digest == ours.digest);
  settle_numbers(p.a.repo(), false);
  bring(p.a.repo(), p.b.repo());
  settle_numbers(p.b.repo(), false);
  CHECK(dump(p.a.repo()) == dump(p.b.repo()));
}

TEST_CASE("the same content under two numbers answers to both") {
  Pair p;
  make(p.a.repo(), "clf", "same");
  make(p.b.repo(), "clf", "theirs");
  make(p.b.repo(), "clf", "same");
  p.exchange();
  CHECK(fails_with(ErrorKind::kConflict, "v2", [&] { settle_numbers(p.a.repo(), false); }) == "");
  settle_numbers(p.a.repo(), true);
  const Digest same = tree(p.a.repo(), "same").id;
  CHECK(resolve(p.a.repo(), "clf@v3").digest == same);
  CHECK(resolve(p.a.repo(), "clf@v2").digest == tree(p.a.repo(), "theirs").id);
  CHECK(version_of(p.a.repo(), "clf", same)->number == 3);
}

TEST_CASE("the same content under the same number is no conflict") {
  Pair p;
  make(p.a.repo(), "clf", "same");
  make(p.b.repo(), "clf", "same");
  p.exchange();
  settle_numbers(p.a.repo(), false);
  CHECK(versions(p.a.repo()).size() == 2);
  // Each says of it what was known here first.
  const Version in_a = resolve(p.a.repo(), "clf@v2"), in_b = resolve(p.b.repo(), "clf@v2");
  CHECK(in_a.digest == in_b.digest);
  CHECK(in_a.actor == p.a.repo().actor());
  CHECK(in_b.actor == p.b.repo().actor());
  CHECK(p.a.repo().heads() == p.b.repo().heads());
}

TEST_CASE("an alias moved on both sides means nothing until it is moved again") {
  Pair p;
  move_alias(p.a.repo(), "production", p.v1);
  bring(p.a.repo(), p.b.repo());
  const auto [v2, v3] = p.move_on_both_sides();
  for (Clone* c : {&p.a, &p.b}) {
    CHECK(fails_with(ErrorKind::kConflict, "clf@v2", [&] { resolve(c->repo(), "clf@production"); }) == "");
    CHECK(fails_with(ErrorKind::kConflict, "clf@v3", [&] { resolve(c->repo(), "clf@production"); }) == "");
    CHECK(fails_with(ErrorKind::kConflict, v3.digest.brief(), [&] { settle_numbers(c->repo(), false); }) == "");
  }
  move_alias(p.b.repo(), "production", v2);
  bring(p.b.repo(), p.a.repo());
  CHECK(resolve(p.a.repo(), "clf@production").digest == v2.digest);
  settle_numbers(p.a.repo(), false);
  CHECK(alias_moves(p.a.repo(), "clf").size() == 4);
}

TEST_CASE("an alias moved to the same version on both sides is settled") {
  Pair p;
  move_alias(p.a.repo(), "best", p.v1);
  move_alias(p.b.repo(), "best", p.v1);
  p.exchange();
  CHECK(resolve(p.a.repo(), "clf@best").digest == p.v1.digest);
  CHECK(resolve(p.a.repo(), "clf@v1").aliases == std::vector<std::string>{"best"});
  settle_numbers(p.a.repo(), false);
}

TEST_CASE("a tag that two clones gave to different versions names neither") {
  Pair p;
  const Version v2 = make(p.a.repo(), "clf", "two");
  bring(p.a.repo(), p.b.repo());
  create_tag(p.a.repo(), "sent", p.v1);
  create_tag(p.b.repo(), "sent", v2);
  p.exchange();
  CHECK(fails_with(ErrorKind::kConflict, "clf@v1", [&] { resolve(p.a.repo(), "clf@sent"); }) == "");
}

TEST_CASE("bug: an alias conflict could not be settled by promoting, whichever version was named") {
  Pair p;
  const auto [v2, v3] = p.move_on_both_sides();
  CHECK(named_by_alias(p.a.repo(), "clf", "production").size() == 2);
  CHECK(fails_with(ErrorKind::kConflict, "clf@v2", [&] { resolve(p.a.repo(), "clf@production~1"); }) == "");
  move_alias(p.a.repo(), "production", v2, "as a has it");  // where it stands on one side already
  CHECK(named_by_alias(p.a.repo(), "clf", "production").size() == 1);
  settle_numbers(p.a.repo(), false);
  bring(p.a.repo(), p.b.repo());
  settle_numbers(p.b.repo(), false);
  CHECK(resolve(p.b.repo(), "clf@production").digest == v2.digest);
  CHECK(alias_moves(p.b.repo()).back().message == "as a has it");
  CHECK(dump(p.a.repo()) == dump(p.b.repo()));
}

TEST_CASE("bug: one's own side of an alias conflict could not be undone, because the other side counted as later") {
  Pair p;
  const auto [v2, v3] = p.move_on_both_sides();
  undo(p.a.repo(), "", false);
  settle_numbers(p.a.repo(), false);
  p.exchange();
  settle_numbers(p.b.repo(), false);
  CHECK(resolve(p.b.repo(), "clf@production").digest == v3.digest);
  // A move that knew of the other is later, and whoever made it is named, not a command that refuses.
  move_alias(p.a.repo(), "production", v2);
  p.exchange();
  move_alias(p.b.repo(), "production", v3);
  p.exchange();
  const std::string who = "came later | " + p.b.repo().actor() + " made it";
  CHECK(fails_with(ErrorKind::kConflict, who, [&] { undo(p.a.repo(), "", false); }) == "");
}

TEST_CASE("bug: with another key in the same clone --renumber gave the other clone's version another number") {
  Pair p;
  const Version ours = make(p.a.repo(), "clf", "ours"), theirs = make(p.b.repo(), "clf", "theirs");
  bring(p.b.repo(), p.a.repo());
  const TempFolder home;
  p.a.close();
  p.a.home = home.path();
  p.a.open();
  make(p.a.repo(), "other", "signed by somebody else");
  CHECK(p.a.repo().own_actors().size() == 2);
  settle_numbers(p.a.repo(), true);
  CHECK(resolve(p.a.repo(), "clf@v2").digest == theirs.digest);
  CHECK(resolve(p.a.repo(), "clf@v3").digest == ours.digest);
  bring(p.a.repo(), p.b.repo());  // who reads it judges the same
  CHECK(resolve(p.b.repo(), "clf@v3").digest == ours.digest);
}
