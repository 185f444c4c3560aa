// Applies the operations on versions, aliases, tags and attachments to their tables.
#include "base/json.h"
#include "registry/apply.h"
#include "registry/history.h"
#include "registry/names.h"

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
  a.db.prepare("INSERT OR IGNORE INTO version_numbers (artifact, number, digest, actor, seq) VALUES (?, ?, ?, ?, ?)")
      .bind(artifact, number, digest, a.operation.actor, a.seq)
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

}  // namespace

void apply_version_create(const Application& a) {
  const std::string artifact = a.string("artifact"), kind = a.string("kind");
  const Digest digest = a.digest("digest");
  if (kind != "dataset" && kind != "model") a.corrupt("'kind' is neither dataset nor model");
  if (const std::string problem = artifact_name_problem(artifact); !problem.empty())
    a.corrupt("'artifact': " + problem);
  a.db.prepare("INSERT OR IGNORE INTO artifacts (name, kind) VALUES (?, ?)").bind(artifact, kind).run();
  a.db.prepare(
          "INSERT OR IGNORE INTO versions (seq, artifact, kind, digest, files, bytes, message, run, parent, actor, "
          "time)"
          " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(a.seq, artifact, kind, digest, a.integer("files", 0), a.integer("bytes", 0), a.string("message"),
            a.string("run"), a.digest_or_null("parent"), a.operation.actor, a.operation.time)
      .run();
  a.db.prepare("INSERT INTO version_makers (operation, artifact, digest) VALUES (?, ?, ?)")
      .bind(a.operation.id, artifact, digest)
      .run();
  claim_number(a, artifact, digest, number(a, "number"));
}

void apply_version_renumber(const Application& a) {
  const std::string artifact = a.string("artifact");
  const Digest digest = a.digest("digest");
  require_version(a, artifact, digest);
  a.db.prepare("DELETE FROM version_numbers WHERE artifact = ? AND digest = ? AND number = ?")
      .bind(artifact, digest, number(a, "from"))
      .run();
  claim_number(a, artifact, digest, number(a, "to"));
}

void apply_alias_move(const Application& a) {
  const std::string artifact = a.string("artifact"), alias = a.string("alias");
  const Digest digest = a.digest("digest");
  require_label(a, alias);
  require_version(a, artifact, digest);
  store::Statement replace = a.db.prepare("DELETE FROM aliases WHERE artifact = ? AND alias = ? AND operation = ?");
  for (const Json& replaced : json_array(a.body, "replaces", a.what())) {
    if (!replaced.is_string()) a.corrupt("'replaces': expected digests");
    replace.bind(artifact, alias, Digest::parse(replaced.get_ref<const std::string&>())).run();
  }
  a.db.prepare("INSERT INTO aliases (artifact, alias, operation, digest, actor, time) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(artifact, alias, a.operation.id, digest, a.operation.actor, a.operation.time)
      .run();
  a.db.prepare(
          "INSERT INTO alias_moves (seq, artifact, alias, digest, actor, time, message) VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(a.seq, artifact, alias, digest, a.operation.actor, a.operation.time, a.string_or_empty("message"))
      .run();
}

void apply_tag_create(const Application& a) {
  const std::string artifact = a.string("artifact"), tag = a.string("tag");
  const Digest digest = a.digest("digest");
  require_label(a, tag);
  require_version(a, artifact, digest);
  a.db.prepare("INSERT OR REPLACE INTO tags (artifact, tag, digest, actor, time, operation) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(artifact, tag, digest, a.operation.actor, a.operation.time, a.operation.id)
      .run();
}

// What its maker could not know of stays: of two clones, one that tags and one that untags, the first wins.
void apply_tag_delete(const Application& a) {
  const std::string artifact = a.string("artifact"), tag = a.string("tag");
  const Digest digest = a.digest("digest");
  store::Statement made = a.db.prepare(
      "SELECT operation FROM tags WHERE artifact = ? AND tag = ? AND digest = ? AND operation IS NOT NULL");
  if (!made.bind(artifact, tag, digest).step() || !is_ancestor(a.db, made.digest(0), a.operation.id)) return;
  a.db.prepare("DELETE FROM tags WHERE artifact = ? AND tag = ? AND digest = ?").bind(artifact, tag, digest).run();
}

void apply_attach(const Application& a) {
  a.db.prepare("INSERT OR REPLACE INTO attachments (version, kind, name, blob, actor, time) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(a.digest("version"), a.string("kind"), a.string("name"), a.digest("blob"), a.operation.actor,
            a.operation.time)
      .run();
}

}  // namespace mlx::registry
