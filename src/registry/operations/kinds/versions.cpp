// Versions: making, renumbering, recording as lost.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "registry/operations/application.h"
#include "registry/operations/body.h"
#include "registry/operations/names.h"
#include "registry/operations/number_claims.h"

namespace mlx::registry {
namespace {

// No artifact has more versions than this; a larger number would leave none for the next.
std::int64_t number(const Application& a, const char* key) {
  constexpr std::int64_t kMostVersions = 1'000'000'000;
  const std::int64_t value = a.integer(key, 1);
  if (value > kMostVersions) a.corrupt(fmt::format("'{}' is {}, more than {}", key, value, kMostVersions));
  return value;
}

// A number is a claim: two digests may claim the same one, which settle_numbers() resolves.
void claim_number(const Application& a, const std::string& artifact, const Digest& digest, std::int64_t number) {
  a.db.prepare("INSERT INTO version_numbers (artifact, number, digest, seq, actor) VALUES (?, ?, ?, ?, ?)")
      .bind(artifact, number, digest, a.seq, a.operation.actor)
      .run();
}

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

// Makers give up claims of their own. Claims of others are removed only if two digests have one number, and only from
// the digest that has to give way (number_claims.h). A number that the writer knew to be taken is not assigned.
void apply_version_renumber(const Application& a) {
  const std::string artifact = a.string("artifact");
  const Digest digest = a.digest("digest");
  const std::int64_t from = number(a, "from"), to = number(a, "to");
  a.require_version(artifact, digest);
  const std::vector<NumberClaim> claims =
      claims_on(a.db, artifact, from, a.operation.is_signed() ? a.operation.clone : a.operation.actor);
  const std::string maker = a.maker();
  const auto first_claim = [&](bool own) {
    return std::ranges::find_if(
        claims, [&](const NumberClaim& claim) { return claim.digest == digest && (claim.maker == maker) == own; });
  };
  const auto other = first_claim(false);
  const bool of_others = other != claims.end();
  if (digest_to_give_way(claims, maker, a.ancestry()) != digest) {
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

// Its only effect is on what people are told.
void apply_version_lost(const Application& a) {
  store::Statement makers = a.db.prepare("SELECT seq FROM version_makers WHERE digest = ? ORDER BY seq");
  for (const Digest& version : a.digests("versions[]")) {
    for (makers.bind(version); makers.step();) {
      const Made made = maker_at(a.db, makers.int64(0));
      if (made.maker != a.maker()) return a.changes("gives up the content of versions by", made.actor);
    }
    makers.reset();
  }
}

std::string version_create_text(const Body& body) {
  return fmt::format("made {}@v{} ({}){}", body.text("artifact"), body.number("number"), body.brief("digest"),
                     body.why());
}

std::string version_renumber_text(const Body& body) {
  return fmt::format("renumbered {}@v{} to v{} ({})", body.text("artifact"), body.number("from"), body.number("to"),
                     body.brief("digest"));
}

std::string version_lost_text(const Body& body) {
  return fmt::format("gave up the content of {} as lost", counted(body.size("versions"), "version"));
}

}  // namespace

extern const Kind kVersionCreate = {
    "version.create",         apply_version_create,
    version_create_text,      names({{Role::kVersion, "digest"}, {Role::kParent, "parent"}}),
    ContentDomain::kArtifact, kCanBeUndone,
    takes<Right::kCommit>,    {.number = "number"},
};

extern const Kind kVersionRenumber = {
    "version.renumber",      apply_version_renumber,
    version_renumber_text,   names({{Role::kReference, "digest"}}),
    ContentDomain::kHistory, {.thing = "number", .keys = {"artifact", "digest"}, .needs_version = true},
    takes<Right::kCommit>,   {.number = "to"},
};

extern const Kind kVersionLost = {
    "version.lost",          apply_version_lost, version_lost_text,     names({{Role::kLost, "versions[]"}}),
    ContentDomain::kHistory, kNeverUndone,       takes<Right::kCommit>,
};

}  // namespace mlx::registry
