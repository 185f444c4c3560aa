// Versions, names on them, and the grammar of references.
#include <doctest/doctest.h>

#include "base/json.h"
#include "clone.h"
#include "fails_with.h"
#include "registry/maintenance/rebuild.h"
#include "registry/versions/references.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

TEST_CASE("versions are numbered in turn, and the same content is the same version") {
  Clone c;
  const Created first = create_version(c.repo(), new_version(c.repo(), "clf", "one"));
  CHECK(first.made);
  CHECK(first.version.name() == "clf@v1");
  CHECK(first.version.message == "made of one");
  CHECK(first.version.bytes == 3);
  CHECK(make(c.repo(), "clf", "two").number == 2);
  CHECK(make(c.repo(), "other", "one").number == 1);
  const std::string before = dump(c.repo());
  const Created again = create_version(c.repo(), new_version(c.repo(), "clf", "one"));
  CHECK_FALSE(again.made);
  CHECK(again.version.number == 1);
  CHECK(dump(c.repo()) == before);
  CHECK(artifact_names(c.repo()) == std::vector<std::string>{"clf", "other"});
  CHECK(versions(c.repo(), "clf").size() == 2);
}

TEST_CASE("names that are ambiguous in references, or unsafe as a path, are refused") {
  Clone c;
  for (const std::string name : {"", "a@b", "a:b", "../x", "/x", "x/.git/hooks", "X/.MLX", "run", "a\nb", "\xff"}) {
    INFO(name);
    CHECK(fails_with(ErrorKind::kUsage, "cannot name", [&] { make(c.repo(), name, "one"); }) == "");
  }
  make(c.repo(), "clf", "one");
  CHECK(fails_with(ErrorKind::kConflict, "is a model already",
                   [&] { make(c.repo(), "clf", "x", ArtifactKind::kDataset); }) == "");
  const Version v = resolve(c.repo(), "clf");
  for (const std::string label : {"", "latest", "v3", "deadbeef", "-x", "a b", "~1"}) {
    INFO(label);
    CHECK(fails_with(ErrorKind::kUsage, "cannot be", [&] { move_alias(c.repo(), label, v); }) == "");
    CHECK(fails_with(ErrorKind::kUsage, "cannot be", [&] { create_tag(c.repo(), label, v); }) == "");
  }
}

TEST_CASE("references") {
  Clone c;
  const Version v1 = make(c.repo(), "clf", "one"), v2 = make(c.repo(), "clf", "two"),
                v3 = make(c.repo(), "clf", "three");
  move_alias(c.repo(), "production", v2);
  create_tag(c.repo(), "paper/v1.0", v1);
  const auto digest = [&](const std::string& reference) { return resolve(c.repo(), reference).digest; };
  CHECK(digest("clf") == v3.digest);
  CHECK(digest("clf@latest") == v3.digest);
  CHECK(digest("clf@v1") == v1.digest);
  CHECK(digest("clf@~0") == v3.digest);
  CHECK(digest("clf@~2") == v1.digest);
  CHECK(digest("clf@production") == v2.digest);
  CHECK(digest("clf@paper/v1.0") == v1.digest);
  CHECK(digest("clf@" + v2.digest.hex().substr(0, 8)) == v2.digest);
  CHECK(digest("clf@" + v2.digest.text()) == v2.digest);
  CHECK(digest("clf@v1:weights.safetensors") == v1.digest);
  CHECK(resolve(c.repo(), "clf@v2").aliases == std::vector<std::string>{"production"});
  CHECK(resolve(c.repo(), "clf@v1").tags == std::vector<std::string>{"paper/v1.0"});

  SUBCASE("a bare name means what the pointer names, committed or not") {
    write_pointer(c.repo(),
                  {.artifact = "clf", .kind = ArtifactKind::kModel, .digest = v1.digest, .files = 1, .size = 3});
    CHECK(digest("clf") == v1.digest);
    CHECK(digest("clf@latest") == v3.digest);
    const Digest added = Digest::of("added");
    write_pointer(c.repo(),
                  {.artifact = "data/x", .kind = ArtifactKind::kDataset, .digest = added, .files = 2, .size = 9});
    const Version version = resolve(c.repo(), "data/x/");
    CHECK(version.digest == added);
    CHECK(version.number == 0);
    CHECK(version.bytes == 9);
    CHECK(fails_with(ErrorKind::kUsage, "mlx commit", [&] { move_alias(c.repo(), "best", version); }) == "");
  }
  SUBCASE("what is not there says what was meant") {
    CHECK(fails_with(ErrorKind::kNotFound, "did you mean 'clf@production'",
                     [&] { resolve(c.repo(), "clf@prodution"); }) == "");
    CHECK(fails_with(ErrorKind::kNotFound, "did you mean 'clf'", [&] { resolve(c.repo(), "clg"); }) == "");
    CHECK(fails_with(ErrorKind::kNotFound, "mlx ls", [&] { resolve(c.repo(), "something"); }) == "");
    for (const std::string selector :
         {"v4", "v0", "v99999999999999999999", "~3", "~99999999999999999999", "0123456789"}) {
      INFO(selector);
      CHECK_FALSE(try_resolve(c.repo(), "clf@" + selector));
      CHECK(fails_with(ErrorKind::kNotFound, selector, [&] { resolve(c.repo(), "clf@" + selector); }) == "");
    }
  }
  SUBCASE("bad references") {
    for (const std::string reference : {"", "@v1", "clf@", "clf:", "clf@v1:", "../clf", "/clf"}) {
      INFO(reference);
      CHECK(fails_with(ErrorKind::kUsage, "is not a reference", [&] { resolve(c.repo(), reference); }) == "");
    }
  }
}

TEST_CASE("aliases move and keep their history, tags stay") {
  Clone c;
  const Version v1 = make(c.repo(), "clf", "one"), v2 = make(c.repo(), "clf", "two");
  move_alias(c.repo(), "best", v1);
  move_alias(c.repo(), "best", v2);
  move_alias(c.repo(), "best", v2);
  const std::vector<AliasMove> moves = alias_moves(c.repo(), "clf");
  REQUIRE(moves.size() == 2);
  CHECK(moves[0].digest == v1.digest);
  CHECK(moves[1].digest == v2.digest);
  CHECK(resolve(c.repo(), "clf@v1").aliases.empty());
  create_tag(c.repo(), "sent", v1);
  create_tag(c.repo(), "sent", v1);
  CHECK(fails_with(ErrorKind::kConflict, "never move", [&] { create_tag(c.repo(), "sent", v2); }) == "");
  CHECK(fails_with(ErrorKind::kConflict, "already exists as a tag", [&] { move_alias(c.repo(), "sent", v2); }) == "");
  CHECK(fails_with(ErrorKind::kConflict, "already exists as an alias", [&] { create_tag(c.repo(), "best", v2); }) ==
        "");
}

TEST_CASE("attachments: the last of a kind and name holds, the same twice is nothing new") {
  Clone c;
  const Version v = make(c.repo(), "clf", "one");
  attach(c.repo(), v.digest, "evaluation", "data/fashion#test", as_bytes("first"));
  attach(c.repo(), v.digest, "evaluation", "data/fashion#test", as_bytes("second"));
  const std::size_t operations = c.repo().operations().size();
  attach(c.repo(), v.digest, "evaluation", "data/fashion#test", as_bytes("second"));
  CHECK(c.repo().operations().size() == operations);
  attach(c.repo(), v.digest, "report", "", as_bytes("html"));
  const auto evaluations = attachments(c.repo(), v.digest, "evaluation");
  REQUIRE(evaluations.size() == 1);
  CHECK(as_text(c.repo().store().read_blob(evaluations[0].blob)) == "second");
  CHECK(attachments(c.repo(), v.digest).size() == 2);
}

TEST_CASE("previous and ALIAS~N: an alias's earlier versions") {
  Clone c;
  const Version one = make(c.repo(), "clf", "one"), two = make(c.repo(), "clf", "two"),
                three = make(c.repo(), "clf", "three");
  CHECK(fails_with(ErrorKind::kNotFound, "no alias", [&] { resolve(c.repo(), "clf@previous"); }) == "");
  move_alias(c.repo(), "production", one);
  CHECK(fails_with(ErrorKind::kNotFound, "no alias", [&] { resolve(c.repo(), "clf@previous"); }) == "");
  move_alias(c.repo(), "production", three, "a try");
  move_alias(c.repo(), "production", two);
  CHECK(resolve(c.repo(), "clf@previous").digest == three.digest);
  CHECK(resolve(c.repo(), "clf@production~0").digest == two.digest);
  CHECK(resolve(c.repo(), "clf@production~1").digest == three.digest);
  CHECK(resolve(c.repo(), "clf@production~2").digest == one.digest);
  CHECK_FALSE(try_resolve(c.repo(), "clf@production~3"));
  undo(c.repo(), "", false);  // as if it had not been moved
  CHECK(resolve(c.repo(), "clf@previous").digest == one.digest);
  // A second alias that was moved too: which one is meant has to be said, unless they agree.
  move_alias(c.repo(), "staging", two);
  CHECK(resolve(c.repo(), "clf@previous").digest == one.digest);
  move_alias(c.repo(), "staging", one);
  CHECK(fails_with(ErrorKind::kConflict, "staging before", [&] { resolve(c.repo(), "clf@previous"); }) == "");
  CHECK(resolve(c.repo(), "clf@staging~1").digest == two.digest);
  CHECK(fails_with(ErrorKind::kUsage, "previous", [&] { move_alias(c.repo(), "previous", one); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "previous", [&] { create_tag(c.repo(), "previous", one); }) == "");
  CHECK(alias_moves(c.repo(), "clf")[1].message == "a try");
  NoProgress quiet;
  const std::string before = dump(c.repo());
  rebuild_database(c.root, *c.disk, c.pool, quiet);
  CHECK(dump(c.repo()) == before);
  CHECK(alias_moves(c.repo(), "clf")[1].message == "a try");
}

TEST_CASE("bug: a run could not be used as a reference to the version that it made") {
  Clone c;
  const std::string run = start_run(c.repo(), run_start("train", "key"));
  CHECK(fails_with(ErrorKind::kNotFound, "made no version", [&] { resolve(c.repo(), "run:" + run); }) == "");
  NewVersion made = new_version(c.repo(), "clf", "one");
  made.run = run;
  const Version version = create_version(c.repo(), made).version;
  make(c.repo(), "copy", "one");  // the same content by another name
  end_run(c.repo(), run, RunStatus::kDone, {{"model", version.digest}}, Json::object());
  CHECK(resolve(c.repo(), "run:" + run.substr(0, 6)).name() == "clf@v1");
  CHECK(made_by(c.repo(), read_run(c.repo(), run)).size() == 1);
  CHECK(fails_with(ErrorKind::kNotFound, "no run has this id", [&] { resolve(c.repo(), "run:0000"); }) == "");
}
