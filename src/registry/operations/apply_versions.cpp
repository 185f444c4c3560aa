// Applies the operations on versions, aliases, tags and attachments to their tables.
#include <algorithm>

#include "base/json.h"
#include "registry/operations/apply.h"
#include "registry/versions/names.h"
#include "registry/versions/numbers.h"

namespace mlx::registry {
namespace {

// More versions than that nobody makes; a larger number would leave none for the next.
std::int64_t number(const Application& a, const char* key) {
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::int64_t value = a.integer(key, 1);
  if (value > kMost) a.corrupt(fmt::format("'{}' is {}, more than {}", key, value, kMost));
  return value;
}

// The number is a claim: two digests may claim one, which settle_numbers() finds.
void claim_number(const Application& a, const std::string& artifact, const Digest& digest, std::int64_t number) {
  a.db.prepare("INSERT INTO version_numbers (artifact, number, digest, seq, actor) VALUES (?, ?, ?, ?, ?)")
      .bind(artifact, number, digest, a.seq, a.operation.actor)
      .run();
}

void require_version(const Application& a, const std::string& artifact, const Digest& digest) {
  if (!a.db.prepare("SELECT 1 FROM versions WHERE artifact = ? AND digest = ?").bind(artifact, digest).step()) {
    a.corrupt("names a version of " + artifact + " that no operation before it made: " + digest.brief());
  }
}

void require_label(const Application& a, const std::string& label) {
  if (const std::string problem = label_problem(label); !problem.empty()) a.corrupt("'" + label + "': " + problem);
}

// Where somebody else had made what is there.
void note_change(const Application& a, std::int64_t place, const std::string& what) {
  const Made made = maker_at(a.db, place);
  if (made.maker != a.maker()) a.changes(what, made.actor);
}

}  // namespace

void apply_version_create(const Application& a) {
  const std::string artifact = a.string("artifact"), kind = a.string("kind");
  const Digest digest = a.digest("digest");
  if (kind != "dataset" && kind != "model") a.corrupt("'kind' is neither dataset nor model");
  if (const std::string problem = artifact_name_problem(artifact); !problem.empty())
    a.corrupt("'artifact': " + problem);
  a.db.prepare("INSERT OR IGNORE INTO artifacts (name, kind) VALUES (?, ?)").bind(artifact, kind).run();
  a.db.prepare("INSERT OR IGNORE INTO versions (seq, artifact, digest) VALUES (?, ?, ?)")
      .bind(a.seq, artifact, digest)
      .run();
  a.db.prepare(
          "INSERT INTO version_makers (operation, artifact, digest, seq, kind, files, bytes, message, run, parent, "
          "actor, time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(a.operation.id, artifact, digest, a.seq, kind, a.integer("files", 0), a.integer("bytes", 0),
            a.string("message"), a.string("run"), a.digest_or_null("parent"), a.operation.actor, a.operation.time)
      .run();
  claim_number(a, artifact, digest, number(a, "number"));
}

// Everybody gives up claims of their own; those of others go only where two digests have one number, and only from the
// one that is to give way (numbers.h). A number that the writer knew to be another's is not taken.
void apply_version_renumber(const Application& a) {
  const std::string artifact = a.string("artifact");
  const Digest digest = a.digest("digest");
  const std::int64_t from = number(a, "from"), to = number(a, "to");
  require_version(a, artifact, digest);
  const std::vector<NumberClaim> claims =
      claims_on(a.db, artifact, from, a.operation.is_signed() ? a.operation.clone : a.operation.actor);
  const std::string maker = a.maker();
  const auto first_claim = [&](bool own) {
    return std::ranges::find_if(
        claims, [&](const NumberClaim& claim) { return claim.digest == digest && (claim.maker == maker) == own; });
  };
  const auto other = first_claim(false);
  const bool of_others = other != claims.end();
  if (digest_to_give_way(claims, maker, a.ancestry) != digest) {
    if (of_others) return a.ignore(fmt::format("v{} was given by", from), other->actor);
    if (first_claim(true) == claims.end())
      return a.ignore(fmt::format("v{} was not given to it by", from), a.operation.actor);
  }
  for (const NumberClaim& claim : claims_on(a.db, artifact, to)) {
    if (claim.digest != digest && claim.maker != maker && a.follows(claim.seq))
      return a.ignore(fmt::format("v{} is {}, made by", to, claim.digest.brief()), claim.actor);
  }
  if (of_others) a.changes(fmt::format("v{} was given by", from), other->actor);
  a.db.prepare("DELETE FROM version_numbers WHERE artifact = ? AND digest = ? AND number = ?")
      .bind(artifact, digest, from)
      .run();
  claim_number(a, artifact, digest, to);
}

void apply_alias_move(const Application& a) {
  const std::string artifact = a.string("artifact"), alias = a.string("alias");
  const Digest digest = a.digest("digest");
  require_label(a, alias);
  require_version(a, artifact, digest);
  store::Statement replace = a.db.prepare("DELETE FROM aliases WHERE artifact = ? AND alias = ? AND operation = ?");
  store::Statement replaced_place = a.db.prepare(
      "SELECT o.seq FROM aliases m JOIN operations o ON o.id = m.operation WHERE m.artifact = ? AND m.alias = ? AND "
      "m.operation = ?");
  for (const Json& replaced : json_array(a.body, "replaces", a.what())) {
    if (!replaced.is_string()) a.corrupt("'replaces': expected digests");
    const Digest id = Digest::parse(replaced.get_ref<const std::string&>());
    if (replaced_place.bind(artifact, alias, id).step())
      note_change(a, replaced_place.int64(0), "moves what was put there by");
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

// The first one in the graph stands. Of two that did not know of each other neither has the better right.
void apply_tag_create(const Application& a) {
  const std::string artifact = a.string("artifact"), tag = a.string("tag");
  const Digest digest = a.digest("digest");
  require_label(a, tag);
  require_version(a, artifact, digest);
  store::Statement others =
      a.db.prepare("SELECT digest, actor, operation FROM tags WHERE artifact = ? AND tag = ? AND digest <> ?");
  for (others.bind(artifact, tag, digest); others.step();) {
    if (!a.follows(others.digest(2))) continue;
    return a.ignore(fmt::format("the tag stands on {} already, put there by", others.digest(0).brief()),
                    others.text(1));
  }
  a.db.prepare("INSERT OR REPLACE INTO tags (artifact, tag, digest, actor, time, operation) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(artifact, tag, digest, a.operation.actor, a.operation.time, a.operation.id)
      .run();
}

// What its maker could not know of stays: of two clones, one that tags and one that untags, the first wins.
void apply_tag_delete(const Application& a) {
  const std::string artifact = a.string("artifact"), tag = a.string("tag");
  const Digest digest = a.digest("digest");
  store::Statement made = a.db.prepare(
      "SELECT o.seq FROM tags t JOIN operations o ON o.id = t.operation WHERE t.artifact = ? AND t.tag = ? AND "
      "t.digest = ?");
  if (!made.bind(artifact, tag, digest).step() || !a.follows(made.int64(0))) return;
  note_change(a, made.int64(0), "takes off the tag of");
  a.db.prepare("DELETE FROM tags WHERE artifact = ? AND tag = ? AND digest = ?").bind(artifact, tag, digest).run();
}

// What others attached under the same name is no longer shown, and kept.
void apply_attach(const Application& a) {
  const Digest version = a.digest("version");
  const std::string kind = a.string("kind"), name = a.string("name");
  store::Statement shown =
      a.db.prepare("SELECT seq FROM attachments WHERE version = ? AND kind = ? AND name = ? ORDER BY seq DESC LIMIT 1");
  if (shown.bind(version, kind, name).step()) note_change(a, shown.int64(0), "is shown in place of that of");
  shown.reset();
  a.db.prepare(
          "INSERT OR REPLACE INTO attachments (seq, version, kind, name, maker, blob, actor, time)"
          " VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(a.seq, version, kind, name, a.maker(), a.digest("blob"), a.operation.actor, a.operation.time)
      .run();
}

}  // namespace mlx::registry
