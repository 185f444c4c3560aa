// Versions and their labels and attachments: listed from the projected tables, changed by operations.
#include "registry/versions/artifacts.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "registry/operations/ancestry.h"
#include "registry/operations/kinds.h"
#include "registry/operations/names.h"
#include "registry/versions/domains.h"

namespace mlx::registry {
namespace {

constexpr const char* kSelectVersion =
    "SELECT v.artifact, v.kind, (SELECT min(n.number) FROM version_numbers n WHERE n.artifact = v.artifact AND "
    "n.digest = v.digest),"
    " v.digest, v.files, v.bytes, v.message, v.run, v.parent, v.actor, v.time, v.operation FROM made_versions v ";

Version read_version(const store::Statement& row) {
  Version version;
  version.artifact = row.text(0);
  version.kind = row.text(1) == kind_name(ArtifactKind::kModel) ? ArtifactKind::kModel : ArtifactKind::kDataset;
  version.number = static_cast<int>(row.int64(2));
  version.digest = row.digest(3);
  version.files = static_cast<std::uint64_t>(row.int64(4));
  version.bytes = static_cast<std::uint64_t>(row.int64(5));
  version.message = row.text(6);
  version.run = row.text(7);
  if (!row.null(8)) version.parent = row.digest(8);
  version.actor = row.text(9);
  version.time = row.int64(10);
  version.operation = row.digest(11);
  return version;
}

void read_labels(store::Database& db, std::vector<Version>& versions) {
  store::Statement aliases =
      db.prepare("SELECT DISTINCT alias FROM aliases WHERE artifact = ? AND digest = ? ORDER BY alias");
  store::Statement tags = db.prepare("SELECT tag FROM tags WHERE artifact = ? AND digest = ? ORDER BY tag");
  for (Version& version : versions) {
    for (aliases.bind(version.artifact, version.digest); aliases.step();) version.aliases.push_back(aliases.text(0));
    for (tags.bind(version.artifact, version.digest); tags.step();) version.tags.push_back(tags.text(0));
    aliases.reset();
    tags.reset();
  }
}

std::vector<Version> read_versions(store::Database& db, store::Statement& select) {
  std::vector<Version> versions;
  while (select.step()) versions.push_back(read_version(select));
  read_labels(db, versions);
  return versions;
}

void require_artifact_name(const std::string& name) {
  if (const std::string problem = artifact_name_problem(name); !problem.empty()) {
    fail(ErrorKind::kUsage, "'{}' cannot name an artifact: {}", name, problem);
  }
}

void require_label(const std::string& label, const char* what) {
  if (const std::string problem = label_problem(label); !problem.empty()) {
    fail(ErrorKind::kUsage, "'{}' cannot be {}: {}", label, what, problem);
  }
}

// Refuses labels that mean something else in a reference; a label that an older mlx gave keeps its meaning.
void require_new_label(const std::string& label, const char* what) {
  require_label(label, what);
  if (label == "previous")
    fail(ErrorKind::kUsage, "'previous' cannot be {}: it names what an alias named before", what);
}

void require_committed(Repository& repository, const Version& version) {
  if (version_of(repository, version.artifact, version.digest)) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{} {}: not committed, so it cannot be named", version.artifact, version.digest.brief()),
              "run `mlx commit -m MESSAGE` first");
}

// Refuses a label that is in use as the other sort of name: NAME@LABEL would mean two things.
void refuse_other_use(store::Database& db, const char* table, const char* column, const std::string& artifact,
                      const std::string& label) {
  store::Statement select = db.prepare(fmt::format("SELECT 1 FROM {} WHERE artifact = ? AND {} = ?", table, column));
  if (select.bind(artifact, label).step()) {
    throw Error(ErrorKind::kConflict,
                fmt::format("{}@{}: already exists as {} {}", artifact, label,
                            std::string_view(column) == "alias" ? "an" : "a", column),
                "choose another name");
  }
}

Json version_body(const NewVersion& version, std::int64_t number) {
  Json body;
  body["artifact"] = version.artifact;
  body["kind"] = kind_name(version.kind);
  body["digest"] = version.manifest.id.text();
  body["number"] = number;
  body["files"] = version.manifest.files;
  body["bytes"] = version.manifest.bytes;
  body["message"] = version.message;
  body["run"] = version.run;
  body["parent"] = version.parent ? Json(version.parent->text()) : Json(nullptr);
  return body;
}

void require_kind(store::Database& db, const std::string& artifact, ArtifactKind kind) {
  store::Statement select = db.prepare("SELECT kind FROM artifacts WHERE name = ?");
  if (select.bind(artifact).step() && select.text(0) != kind_name(kind)) {
    throw Error(ErrorKind::kConflict,
                fmt::format("'{}' is a {} already, not a {}", artifact, select.text(0), kind_name(kind)),
                "choose another name");
  }
}

// The largest number that an undone operation gave to the artifact, if it may have left this clone: a number never
// silently changes its meaning for somebody who saw it.
std::int64_t retired_number(Repository& repository, const std::string& artifact) {
  std::int64_t largest = 0;
  store::Statement select =
      repository.db().prepare("SELECT o.kind, o.bytes FROM undone u JOIN operations o ON o.id = u.operation");
  while (select.step()) {
    const char* const number = repository.kinds().at(select.text(0)).traits.number;
    if (!number) continue;
    const Operation operation = decode(select.blob(1));
    const Json body = parse_json(operation.body, "operation " + operation.id.brief());
    const bool left = !repository.own_actors().contains(operation.actor) ||
                      repository.store().has(store::ObjectKind::kOperation, operation.id);
    if (!left || body.value("artifact", "") != artifact) continue;
    largest = std::max(largest, body.value(number, std::int64_t{0}));
  }
  return largest;
}

std::int64_t next_number(Repository& repository, const std::string& artifact) {
  store::Statement select =
      repository.db().prepare("SELECT coalesce(max(number), 0) FROM version_numbers WHERE artifact = ?");
  select.bind(artifact).step();
  return std::max(select.int64(0), retired_number(repository, artifact)) + 1;
}

}  // namespace

std::string Version::name() const {
  return number > 0 ? fmt::format("{}@v{}", artifact, number) : fmt::format("{}@{}", artifact, digest.brief());
}

std::vector<Version> versions(Repository& repository, const std::string& artifact) {
  store::Statement select =
      repository.db().prepare(std::string(kSelectVersion) + "WHERE ?1 = '' OR v.artifact = ?1 ORDER BY v.seq");
  select.bind(artifact);
  return read_versions(repository.db(), select);
}

void visit_versions(Repository& repository, const std::function<void(const Version&)>& visit) {
  store::Statement select = repository.db().prepare(std::string(kSelectVersion) + "ORDER BY v.seq");
  while (select.step()) visit(read_version(select));
}

std::optional<Version> version_of(Repository& repository, const std::string& artifact, const Digest& digest) {
  store::Statement select =
      repository.db().prepare(std::string(kSelectVersion) + "WHERE v.artifact = ? AND v.digest = ?");
  select.bind(artifact, digest);
  std::vector<Version> found = read_versions(repository.db(), select);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

std::vector<Making> makings(Repository& repository, const Version& version) {
  store::Database& db = repository.db();
  store::Statement select = db.prepare(
      "SELECT m.seq, m.actor, m.message, m.time, o.signer, o.id FROM version_makers m JOIN operations o ON o.id ="
      " m.operation LEFT JOIN taken t ON t.operation = m.operation WHERE m.digest = ? AND m.artifact = ? ORDER BY "
      "t.place, m.seq");
  Ancestry ancestry(db);
  std::vector<Making> found;
  std::vector<std::int64_t> places;
  std::set<std::string> makers;
  for (select.bind(version.digest, version.artifact); select.step();) {
    const std::string actor = select.text(1);
    const std::int64_t place = select.int64(0);
    if (!makers.insert(select.null(4) ? actor : select.digest(4).hex()).second) continue;
    if (std::ranges::any_of(places, [&](std::int64_t earlier) { return ancestry.precedes(earlier, place); })) continue;
    places.push_back(place);
    found.push_back({actor, select.text(2), select.int64(3), select.digest(5)});
  }
  return found;
}

std::vector<std::string> artifact_names(Repository& repository) {
  std::vector<std::string> names;
  store::Statement select = repository.db().prepare("SELECT name FROM artifacts ORDER BY name");
  while (select.step()) names.push_back(select.text(0));
  return names;
}

void require_kind(Repository& repository, const std::string& artifact, ArtifactKind kind) {
  require_kind(repository.db(), artifact, kind);
}

Created create_version(Repository& repository, const NewVersion& version) {
  require_artifact_name(version.artifact);
  if (!is_utf8(version.message)) fail(ErrorKind::kUsage, "the message is not valid UTF-8");
  store::Database& db = repository.db();
  const auto made = repository.record_with("version.create", [&](Json& body) {
    require_kind(db, version.artifact, version.kind);
    if (version_of(repository, version.artifact, version.manifest.id)) return false;
    body = version_body(version, next_number(repository, version.artifact));
    return true;
  });
  return {*version_of(repository, version.artifact, version.manifest.id), made.has_value()};
}

std::vector<Version> named_by_alias(Repository& repository, const std::string& artifact, const std::string& alias) {
  store::Statement select =
      repository.db().prepare("SELECT DISTINCT digest FROM aliases WHERE artifact = ? AND alias = ? ORDER BY digest");
  std::vector<Version> found;
  for (select.bind(artifact, alias); select.step();) {
    if (auto version = version_of(repository, artifact, select.digest(0))) found.push_back(std::move(*version));
  }
  return found;
}

void move_alias(Repository& repository, const std::string& alias, const Version& to, const std::string& message,
                const std::optional<Digest>& from) {
  require_new_label(alias, "an alias");
  if (!is_utf8(message)) fail(ErrorKind::kUsage, "the message is not valid UTF-8");
  store::Database& db = repository.db();
  repository.record_with("alias.move", [&](Json& body) {
    require_committed(repository, to);
    refuse_other_use(db, "tags", "tag", to.artifact, alias);
    bool stands = false, elsewhere = false;
    Json replaces = Json::array();
    store::Statement select =
        db.prepare("SELECT operation, digest FROM aliases WHERE artifact = ? AND alias = ? ORDER BY operation");
    for (select.bind(to.artifact, alias); select.step();) {
      replaces.push_back(select.digest(0).text());
      (select.digest(1) == to.digest ? stands : elsewhere) = true;
      if (from && select.digest(1) != *from)
        fail(ErrorKind::kConflict, "{}@{} was moved to another version meanwhile", to.artifact, alias);
    }
    if (stands && !elsewhere) return false;
    body["alias"] = alias;
    body["artifact"] = to.artifact;
    body["digest"] = to.digest.text();
    body["replaces"] = std::move(replaces);
    if (!message.empty()) body["message"] = message;
    return true;
  });
}

std::vector<AliasMove> alias_moves(Repository& repository, const std::string& artifact) {
  std::vector<AliasMove> moves;
  store::Statement select = repository.db().prepare(
      "SELECT m.artifact, m.alias, m.digest, m.actor, m.time, m.message, o.id FROM alias_moves m"
      " JOIN operations o ON o.seq = m.seq WHERE ?1 = '' OR m.artifact = ?1 ORDER BY m.seq");
  for (select.bind(artifact); select.step();) {
    moves.push_back({select.text(0), select.text(1), select.digest(2), select.text(3), select.int64(4), select.text(5),
                     select.digest(6)});
  }
  return moves;
}

void create_tag(Repository& repository, const std::string& tag, const Version& on) {
  require_new_label(tag, "a tag");
  store::Database& db = repository.db();
  repository.record_with("tag.create", [&](Json& body) {
    require_committed(repository, on);
    refuse_other_use(db, "aliases", "alias", on.artifact, tag);
    store::Statement select = db.prepare("SELECT digest FROM tags WHERE artifact = ? AND tag = ?");
    if (select.bind(on.artifact, tag).step()) {
      if (select.digest(0) == on.digest) return false;
      throw Error(ErrorKind::kConflict,
                  fmt::format("{}@{}: the tag is on {} already", on.artifact, tag, select.digest(0).brief()),
                  fmt::format("tags never move: choose another name, or an alias; `mlx tag -d {}` deletes it",
                              shell_quoted(tag)));
    }
    body["tag"] = tag;
    body["artifact"] = on.artifact;
    body["digest"] = on.digest.text();
    return true;
  });
}

bool delete_tag(Repository& repository, const std::string& tag, const Version& from) {
  store::Database& db = repository.db();
  return repository
      .record_with("tag.delete",
                   [&](Json& body) {
                     store::Statement select =
                         db.prepare("SELECT 1 FROM tags WHERE artifact = ? AND tag = ? AND digest = ?");
                     if (!select.bind(from.artifact, tag, from.digest).step()) return false;
                     body["tag"] = tag;
                     body["artifact"] = from.artifact;
                     body["digest"] = from.digest.text();
                     return true;
                   })
      .has_value();
}

void attach(Repository& repository, const Digest& version, const std::string& kind, const std::string& name,
            ByteView blob) {
  repository.store().use_domain(domain_of_version(repository, version));
  const auto batch = repository.store().begin();
  const Digest id = batch->add_blob(blob);
  batch->commit();
  store::Database& db = repository.db();
  repository.record_with("attach", [&](Json& body) {
    store::Statement select = db.prepare(
        "SELECT blob FROM attachments WHERE version = ? AND kind = ? AND name = ? ORDER BY seq DESC LIMIT 1");
    if (select.bind(version, kind, name).step() && select.digest(0) == id) return false;
    body["version"] = version.text();
    body["kind"] = kind;
    body["name"] = name;
    body["blob"] = id.text();
    return true;
  });
}

std::vector<Attachment> attachments(Repository& repository, const Digest& version, const std::string& kind) {
  std::vector<Attachment> found;
  store::Statement select = repository.db().prepare(
      "SELECT blob, kind, name, time, actor FROM attachments a WHERE version = ?1 AND (?2 = '' OR kind = ?2) AND NOT"
      " EXISTS (SELECT 1 FROM attachments b WHERE b.version = a.version AND b.kind = a.kind AND b.name = a.name AND"
      " b.seq > a.seq) ORDER BY kind, name");
  for (select.bind(version, kind); select.step();) {
    found.push_back({version, select.digest(0), select.text(1), select.text(2), select.int64(3), select.text(4)});
  }
  return found;
}

}  // namespace mlx::registry
