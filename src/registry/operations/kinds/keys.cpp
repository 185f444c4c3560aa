// Key domains: which artifact is in which, and which were erased. The keys are removed from .mlx/keys after the
// transaction (destroy_erased_keys), because erasing cannot be rolled back.
#include <fmt/format.h>

#include "registry/operations/application.h"
#include "registry/operations/body.h"
#include "registry/operations/names.h"
#include "store/crypto/key_file.h"

namespace mlx::registry {
namespace {

std::string domain(const Application& a) {
  std::string name = a.string("domain");
  if (const std::string problem = store::key_name_problem(name); !problem.empty()) a.corrupt("'domain': " + problem);
  if (name == store::kHistoryDomain) a.corrupt("'domain' is that of operations");
  return name;
}

// Erases the makings of the named versions in artifacts of this domain that come before the erasure in the graph. A
// version that somebody made without knowing of the erasure, or makes again later, stays.
void erase_makers(const Application& a, const std::string& domain) {
  store::Statement makers = a.db.prepare(
      "SELECT m.operation, m.seq FROM version_makers m LEFT JOIN artifact_domains d ON d.artifact = m.artifact"
      " WHERE m.digest = ? AND coalesce(d.domain, 'main') = ?");
  store::Statement insert = a.db.prepare("INSERT OR IGNORE INTO erased_makers (operation, erasure) VALUES (?, ?)");
  for (const Digest& version : a.digests("versions[]")) {
    for (makers.bind(version, domain); makers.step();) {
      if (a.follows(makers.int64(1))) insert.bind(makers.digest(0), a.operation.id).run();
    }
    makers.reset();
  }
}

void apply_domain_assign(const Application& a) {
  const std::string artifact = a.string("artifact");
  if (const std::string problem = artifact_name_problem(artifact); !problem.empty())
    a.corrupt("'artifact': " + problem);
  a.db.prepare("INSERT OR REPLACE INTO artifact_domains (artifact, domain) VALUES (?, ?)")
      .bind(artifact, domain(a))
      .run();
}

void apply_key_erase(const Application& a) {
  a.db.prepare("INSERT INTO erasures (operation, domain, actor, time) VALUES (?, ?, ?, ?)")
      .bind(a.operation.id, domain(a), a.operation.actor, a.operation.time)
      .run();
  store::Statement insert = a.db.prepare("INSERT OR IGNORE INTO erased_keys (key, erasure) VALUES (?, ?)");
  for (const std::uint32_t key : a.key_ids("keys")) insert.bind(std::uint64_t{key}, a.operation.id).run();
  erase_makers(a, domain(a));
}

std::string domain_assign_text(const Body& body) {
  return fmt::format("put {} into the domain '{}'", body.text("artifact"), body.text("domain"));
}

std::string key_erase_text(const Body& body) {
  return fmt::format("erased the domain '{}': its key was shredded", body.text("domain"));
}

}  // namespace

extern const Kind kDomainAssign = {
    "domain.assign",         apply_domain_assign, domain_assign_text,  kNamesNothing,
    ContentDomain::kHistory, kNeverUndone,        takes<Right::kKeys>,
};

extern const Kind kKeyErase = {
    "key.erase",  apply_key_erase,      key_erase_text, names({{Role::kErased, "versions[]"}}), ContentDomain::kHistory,
    kNeverUndone, takes<Right::kErase>,
};

}  // namespace mlx::registry
