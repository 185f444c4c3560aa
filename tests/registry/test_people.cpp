// Names of actors: given, replaced, forgotten, and never in an operation.
#include "registry/people.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "history_maker.h"
#include "registry/undo.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

TEST_CASE("a name is a blob of its own, and goes with it") {
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
  CHECK(in_force(a.repo().db(), a.repo().operations()).size() == 2);
  bring(a.repo(), b.repo());
  CHECK(has_name(b.repo(), a.repo().actor()));
  CHECK(Names(b.repo()).of(a.repo().actor()) == nullptr);  // its blob did not come along
  CHECK(forget_actor(b.repo(), a.repo().actor()));
  CHECK_FALSE(forget_actor(b.repo(), a.repo().actor()));
  bring(b.repo(), a.repo());
  CHECK(Names(a.repo()).of(a.repo().actor()) == nullptr);
  CHECK(dump(a.repo()) == dump(b.repo()));
  CHECK(in_force(a.repo().db(), a.repo().operations()).size() == 1);  // the forgetting itself
}

TEST_CASE("the same name gives another digest in another clone") {
  Clone a, b;
  describe_actor(a.repo(), {"Ann", "", ""});
  describe_actor(b.repo(), {"Ann", "", ""});
  CHECK(a.repo().operations()[0].body != b.repo().operations()[0].body);
}

TEST_CASE("a blob that is no name leaves the actor without one") {
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

TEST_CASE("bug: a forgotten name came back where its actor gave it without knowing") {
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
