// Names of actors: given, replaced, forgotten, and never in an operation.
#include "registry/record/people.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "base/fd.h"
#include "base/json.h"
#include "fails_with.h"
#include "history_maker.h"
#include "registry/operations/undone.h"
#include "registry/record/undo.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

// How many operations name content that is wanted.
std::ptrdiff_t in_force(Repository& repository) {
  InForce stands(repository.db(), repository.kinds());
  return std::ranges::count_if(repository.operations(), [&](const Operation& operation) {
    return stands(operation, parse_json(operation.body, operation.kind));
  });
}

TEST_CASE("a name is a separate blob, and is gone when the blob is deleted") {
  Clone a, b;
  CHECK(Names(a.repo()).of(a.repo().actor()) == nullptr);
  CHECK(describe_actor(a.repo(), {"Ann", "ann@example.com", "host-1"}));
  CHECK_FALSE(describe_actor(a.repo(), {"Ann", "ann@example.com", "host-1"}));
  CHECK(describe_actor(a.repo(), {"Ann B", "ann@example.com", "host-1"}));
  const Names names(a.repo());
  REQUIRE(names.of(a.repo().actor()) != nullptr);
  CHECK(*names.of(a.repo().actor()) == Person{"Ann B", "ann@example.com", "host-1"});
  for (const Operation& operation : a.repo().operations()) {
    CHECK(as_text(encode(operation)).find("Ann") == std::string_view::npos);
  }
  // Each name belongs to what was done under it.
  CHECK(names.of(a.repo().operations()[0])->name == "Ann");
  CHECK(names.of(a.repo().operations()[1])->name == "Ann B");
  CHECK(in_force(a.repo()) == 2);
  bring(a.repo(), b.repo());
  CHECK(has_name(b.repo(), a.repo().actor()));
  CHECK(Names(b.repo()).of(a.repo().actor()) == nullptr);  // its blob did not come along
  CHECK(forget_actor(b.repo(), a.repo().actor()));
  CHECK_FALSE(forget_actor(b.repo(), a.repo().actor()));
  bring(b.repo(), a.repo());
  CHECK(Names(a.repo()).of(a.repo().actor()) == nullptr);
  CHECK(dump(a.repo()) == dump(b.repo()));
  CHECK(in_force(a.repo()) == 1);  // the forgetting itself
}

TEST_CASE("the same name gives another digest in another clone") {
  Clone a, b;
  describe_actor(a.repo(), {"Ann", "", ""});
  describe_actor(b.repo(), {"Ann", "", ""});
  CHECK(a.repo().operations()[0].body != b.repo().operations()[0].body);
}

TEST_CASE("a blob that is not a name leaves the actor without one") {
  Clone c;
  for (const std::string& text : {std::string("no json"), std::string("[]"), std::string("{\"name\":1}"),
                                  std::string("{\"name\":\"") + std::string(100000, 'x') + "\"}"}) {
    const auto batch = c.repo().store().begin();
    const Digest blob = batch->add_blob(as_bytes(text));
    batch->commit();
    Json body;
    body["blob"] = blob.text();
    c.repo().record("actor.describe", body);
    CHECK(Names(c.repo()).of(c.repo().actor()) == nullptr);
  }
}

TEST_CASE("bug: a forgotten name came back when its actor, not knowing, gave it again") {
  Clone a, b;
  describe_actor(a.repo(), {"Ann", "", ""});
  bring(a.repo(), b.repo());
  const std::string actor = a.repo().actor();
  CHECK(forget_actor(b.repo(), actor));
  describe_actor(a.repo(), {"Ann Bell", "", ""});  // beside the forgetting
  bring(b.repo(), a.repo());
  bring(a.repo(), b.repo());
  CHECK(Names(a.repo()).of(actor) == nullptr);
  CHECK(dump(a.repo()) == dump(b.repo()));
  CHECK(describe_actor(a.repo(), {"Ann", "", ""}));  // knowing it
  CHECK(Names(a.repo()).of(actor)->name == "Ann");
}

namespace {

void sign_as(Clone& c, const std::string& home, const std::string& name) {
  make_folders(join_path(home, ".config/mlx"));
  write_file_atomically(join_path(home, ".config/mlx/config.toml"), "[user]\nname = \"" + name + "\"\n");
  c.close();
  c.home = home;
  c.open();
}

}  // namespace

TEST_CASE("bug: of several people in one clone only who pushed had a name") {
  const TempFolder ann, bob;
  Clone c;
  sign_as(c, ann.path(), "Ann");
  const Version by_ann = make(c.repo(), "clf", "one");
  sign_as(c, bob.path(), "Bob");
  const Version by_bob = make(c.repo(), "clf", "two");
  make(c.repo(), "clf", "two");  // nothing new: says nothing
  sign_as(c, ann.path(), "Ann Bell");
  const Version later = make(c.repo(), "clf", "three");
  make(c.repo(), "clf", "four");
  const Names names(c.repo());
  CHECK(names.of(by_ann.actor, by_ann.operation)->name == "Ann");
  CHECK(names.of(by_bob.actor, by_bob.operation)->name == "Bob");
  CHECK(names.of(later.actor, later.operation)->name == "Ann Bell");
  CHECK(c.repo().operations().size() == 4 + 3);
  CHECK(c.repo().own_actors().size() == 2);
  // Each takes back their own.
  CHECK(undo(c.repo(), "", false).subject.kind == "version.create");
  sign_as(c, bob.path(), "Bob");
  CHECK(undo(c.repo(), "", false).subject.actor == by_bob.actor);
  CHECK(fails_with(ErrorKind::kRefused, "somebody else", [&] { undo(c.repo(), by_ann.operation.hex(), false); }) == "");
}
