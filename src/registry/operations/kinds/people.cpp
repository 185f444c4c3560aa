// The actors' names. They are stored in blobs (keys/person.h), which are deleted when the names are forgotten.
#include <fmt/format.h>

#include "base/json.h"
#include "registry/operations/application.h"
#include "registry/operations/body.h"

namespace mlx::registry {
namespace {

constexpr const char* kForgotten =
    "SELECT o.seq, f.operation FROM forgotten f JOIN operations o ON o.id = f.operation WHERE f.actor = ?";

// A name that its actor gave without knowing that it was to be forgotten is forgotten too.
void apply_actor_describe(const Application& a) {
  store::Statement forgotten = a.db.prepare(kForgotten);
  for (forgotten.bind(a.operation.actor); forgotten.step();) {
    if (!a.follows(forgotten.int64(0))) return;
  }
  a.db.prepare("INSERT INTO people (seq, actor, blob) VALUES (?, ?, ?)")
      .bind(a.seq, a.operation.actor, a.digest("blob"))
      .run();
}

// An actor.forget covers every earlier name.
void apply_actor_forget(const Application& a) {
  const std::string actor = a.string("actor");
  store::Statement before = a.db.prepare(kForgotten);
  std::vector<Digest> known;
  for (before.bind(actor); before.step();) {
    if (a.follows(before.int64(0))) known.push_back(before.digest(1));
  }
  before.reset();
  for (const Digest& id : known) a.db.prepare("DELETE FROM forgotten WHERE operation = ?").bind(id).run();
  a.db.prepare("INSERT INTO forgotten (operation, actor) VALUES (?, ?)").bind(a.operation.id, actor).run();
  a.db.prepare("DELETE FROM people WHERE actor = ?").bind(actor).run();
}

bool is_name_kept(store::Database& db, const Operation& operation, const Json& json) {
  const std::optional<Digest> blob = Body(json).digest({Role::kBlob, "blob"});
  return blob && db.prepare("SELECT 1 FROM people WHERE actor = ? AND blob = ?").bind(operation.actor, *blob).step();
}

// Forgetting one's own name needs the same right as giving it.
Right right_to_forget(const Operation& operation, const Json& body) {
  return text_in(body, "actor") == operation.actor && !operation.actor.empty() ? Right::kCommit : Right::kErase;
}

std::string actor_describe_text(const Body&) {
  return "gave its actor a name";
}

std::string actor_forget_text(const Body& body) {
  return fmt::format("forgot the name of {}", body.text("actor"));
}

}  // namespace

extern const Kind kActorDescribe = {
    "actor.describe",
    apply_actor_describe,
    actor_describe_text,
    names({{Role::kBlob, "blob"}}),
    ContentDomain::kHistory,
    kNeverUndone,
    takes<Right::kCommit>,
    {.tells_names = true},
    is_name_kept,
};

extern const Kind kActorForget = {
    "actor.forget",          apply_actor_forget, actor_forget_text, kNamesNothing,
    ContentDomain::kHistory, kNeverUndone,       right_to_forget,   {.tells_names = true},
};

}  // namespace mlx::registry
