// Applies the operations on domains of keys to their tables. The keys themselves are taken out of .mlx/keys once the
// transaction has ended (forget_erased): what is erased can not be rolled back.
#include "base/json.h"
#include "registry/operations/apply.h"
#include "registry/versions/names.h"
#include "store/crypto/key_file.h"

namespace mlx::registry {
namespace {

std::string domain(const Application& a) {
  std::string name = a.string("domain");
  if (const std::string problem = store::key_name_problem(name); !problem.empty()) a.corrupt("'domain': " + problem);
  if (name == store::kHistoryDomain) a.corrupt("'domain' is that of operations");
  return name;
}

// What made the named versions, in artifacts of this domain, and stands before the erasure in the graph: a version that
// somebody made without knowing of it, or makes again afterwards, stays.
void erase_makers(const Application& a, const std::string& domain) {
  store::Statement makers = a.db.prepare(
      "SELECT m.operation, m.seq FROM version_makers m LEFT JOIN artifact_domains d ON d.artifact = m.artifact"
      " WHERE m.digest = ? AND coalesce(d.domain, 'main') = ?");
  store::Statement insert = a.db.prepare("INSERT OR IGNORE INTO erased_makers (operation, erasure) VALUES (?, ?)");
  for (const Json& version : json_array(a.body, "versions", a.what())) {
    if (!version.is_string()) a.corrupt("'versions': expected digests");
    for (makers.bind(Digest::parse(version.get_ref<const std::string&>()), domain); makers.step();) {
      if (a.follows(makers.int64(1))) insert.bind(makers.digest(0), a.operation.id).run();
    }
    makers.reset();
  }
}

}  // namespace

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
  for (const Json& key : json_array(a.body, "keys", a.what())) {
    if (!key.is_number_unsigned() || key.get<std::uint64_t>() == 0 || key.get<std::uint64_t>() > 0xFFFFFFFF)
      a.corrupt("'keys': expected key ids");
    insert.bind(key.get<std::uint64_t>(), a.operation.id).run();
  }
  erase_makers(a, domain(a));
}

}  // namespace mlx::registry
