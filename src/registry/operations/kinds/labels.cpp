// Aliases, which can move, and tags, which cannot.
#include <fmt/format.h>

#include "registry/operations/application.h"
#include "registry/operations/body.h"
#include "registry/operations/names.h"

namespace mlx::registry {
namespace {

void require_label(const Application& a, const std::string& label) {
  if (const std::string problem = label_problem(label); !problem.empty()) a.corrupt("'" + label + "': " + problem);
}

void apply_alias_move(const Application& a) {
  const std::string artifact = a.string("artifact"), alias = a.string("alias");
  const Digest digest = a.digest("digest");
  require_label(a, alias);
  a.require_version(artifact, digest);
  store::Statement replace = a.db.prepare("DELETE FROM aliases WHERE artifact = ? AND alias = ? AND operation = ?");
  store::Statement replaced_place = a.db.prepare(
      "SELECT o.seq FROM aliases m JOIN operations o ON o.id = m.operation WHERE m.artifact = ? AND m.alias = ? AND "
      "m.operation = ?");
  for (const Digest& id : a.digests("replaces[]")) {
    if (replaced_place.bind(artifact, alias, id).step())
      a.note_change(replaced_place.int64(0), "moves the alias set by");
    replaced_place.reset();
    replace.bind(artifact, alias, id).run();
  }
  a.db.prepare("INSERT INTO aliases (artifact, alias, operation, digest, actor, time) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(artifact, alias, a.operation.id, digest, a.operation.actor, a.operation.time)
      .run();
  a.db.prepare(
          "INSERT INTO alias_moves (seq, artifact, alias, digest, actor, time, message) VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(a.seq, artifact, alias, digest, a.operation.actor, a.operation.time, a.string_or_empty("message"))
      .run();
}

// The first one in the graph holds. Of two concurrent ones neither takes precedence.
void apply_tag_create(const Application& a) {
  const std::string artifact = a.string("artifact"), tag = a.string("tag");
  const Digest digest = a.digest("digest");
  require_label(a, tag);
  a.require_version(artifact, digest);
  store::Statement others =
      a.db.prepare("SELECT digest, actor, operation FROM tags WHERE artifact = ? AND tag = ? AND digest <> ?");
  for (others.bind(artifact, tag, digest); others.step();) {
    if (!a.follows(others.digest(2))) continue;
    return a.ignore(fmt::format("the tag is on {} already, put there by", others.digest(0).brief()), others.text(1));
  }
  a.db.prepare("INSERT OR REPLACE INTO tags (artifact, tag, digest, actor, time, operation) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(artifact, tag, digest, a.operation.actor, a.operation.time, a.operation.id)
      .run();
}

// Removes only tags that its maker knew of: if one clone tags while another removes a tag, the first one wins.
void apply_tag_delete(const Application& a) {
  const std::string artifact = a.string("artifact"), tag = a.string("tag");
  const Digest digest = a.digest("digest");
  store::Statement made = a.db.prepare(
      "SELECT o.seq FROM tags t JOIN operations o ON o.id = t.operation WHERE t.artifact = ? AND t.tag = ? AND "
      "t.digest = ?");
  if (!made.bind(artifact, tag, digest).step() || !a.follows(made.int64(0))) return;
  a.note_change(made.int64(0), "takes off the tag of");
  a.db.prepare("DELETE FROM tags WHERE artifact = ? AND tag = ? AND digest = ?").bind(artifact, tag, digest).run();
}

std::string alias_move_text(const Body& body) {
  return fmt::format("moved {}@{} to {}{}", body.text("artifact"), body.text("alias"), body.brief("digest"),
                     body.why());
}

std::string tag_create_text(const Body& body) {
  return fmt::format("tagged {} {} as {}", body.text("artifact"), body.brief("digest"), body.text("tag"));
}

std::string tag_delete_text(const Body& body) {
  return fmt::format("took the tag {} off {} {}", body.text("tag"), body.text("artifact"), body.brief("digest"));
}

}  // namespace

extern const Kind kAliasMove = {
    "alias.move",
    apply_alias_move,
    alias_move_text,
    names({{Role::kReference, "digest"}, {Role::kReplaced, "replaces[]"}}),
    ContentDomain::kHistory,
    {.thing = "alias", .keys = {"artifact", "alias"}, .needs_version = true, .both_hold = true},
    takes<Right::kPromote>,
};

extern const Kind kTagCreate = {
    "tag.create",
    apply_tag_create,
    tag_create_text,
    names({{Role::kReference, "digest"}}),
    ContentDomain::kHistory,
    {.thing = "tag", .keys = {"artifact", "tag", "digest"}, .needs_version = true},
    takes<Right::kCommit>,
};

extern const Kind kTagDelete = {
    "tag.delete",
    apply_tag_delete,
    tag_delete_text,
    names({{Role::kReference, "digest"}}),
    ContentDomain::kHistory,
    {.thing = "tag", .keys = {"artifact", "tag", "digest"}},
    takes<Right::kCommit>,
};

}  // namespace mlx::registry
