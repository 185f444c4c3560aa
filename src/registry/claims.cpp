#include "registry/claims.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "registry/content.h"
#include "registry/domains.h"
#include "registry/operation_text.h"
#include "store/transfer.h"

namespace mlx::registry {
namespace {

using store::ManifestSummary;
using store::ObjectKind;
using store::ObjectRef;

void require_true(const Operation& operation, const ManifestSummary& tree) {
  if (const std::string wrong = false_claim(operation, tree); !wrong.empty())
    throw Error(ErrorKind::kRefused, wrong,
                "whoever signed it was wrong or lied; `mlx push --repair` of a clone without it leaves it out");
}

std::optional<Digest> version_made_by(const Operation& operation) {
  if (operation.kind != "version.create") return std::nullopt;
  return digest_in(parse_json(operation.body, "operation " + operation.id.brief()), "digest");
}

}  // namespace

// Figures that are missing or no numbers are left to its apply.
std::string false_claim(const Operation& operation, const ManifestSummary& tree) {
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  const auto is = [&](const char* key, std::uint64_t figure) {
    const auto found = body.find(key);
    return found == body.end() || !found->is_number_integer() || *found == figure;
  };
  if (is("files", tree.files) && is("bytes", tree.bytes)) return {};
  return fmt::format("operation {} ({}), signed by {}, says that the version has {} files of {} bytes: it has {} of {}",
                     operation.id.brief(), operation_text(operation),
                     operation.is_signed() ? store::ssh_fingerprint(operation.signer) : "nobody",
                     body.value("files", Json()).dump(), body.value("bytes", Json()).dump(), tree.files, tree.bytes);
}

void require_true_claims(Repository& repository, const std::vector<Operation>& arriving, store::Remote& remote,
                         const std::vector<Digest>& wanted, Progress& progress) {
  const std::unordered_set<Digest, DigestHash> in_demand(wanted.begin(), wanted.end());
  std::vector<std::pair<const Operation*, Digest>> elsewhere;
  for (const Operation& operation : arriving) {
    const std::optional<Digest> version = version_made_by(operation);
    if (!version || erasure_of(repository, *version)) continue;
    if (repository.store().has(ObjectKind::kManifest, *version)) {
      require_true(operation, repository.store().summarize(*version));
    } else if (in_demand.contains(*version)) {
      elsewhere.emplace_back(&operation, *version);
    }
  }
  if (elsewhere.empty()) return;
  std::vector<ObjectRef> named, roots;
  for (const auto& [operation, version] : elsewhere) named.emplace_back(ObjectKind::kManifest, version);
  std::ranges::sort(named);
  named.erase(std::unique(named.begin(), named.end()), named.end());
  std::vector<ObjectRef> nowhere = store::missing_objects(remote, named);  // said by whoever needs them
  std::ranges::sort(nowhere);
  std::ranges::set_difference(named, nowhere, std::back_inserter(roots));
  const TempFolder folder;
  store::Store::create(folder.path(), repository.disk());
  store::Store peeked(folder.path(), repository.disk(), repository.pool());
  store::receive_objects(remote, peeked, roots, progress);
  peeked.reload();
  for (const auto& [operation, version] : elsewhere) {
    if (peeked.has(ObjectKind::kManifest, version)) require_true(*operation, peeked.summarize(version));
  }
}

std::function<void(const ManifestSummary&)> tree_check(Repository& repository) {
  return [&repository](const ManifestSummary& tree) {
    store::Statement makers = repository.db().prepare(
        "SELECT o.bytes FROM version_makers m JOIN operations o ON o.id = m.operation WHERE m.digest = ?");
    for (makers.bind(tree.id); makers.step();) require_true(decode(makers.blob(0)), tree);
  };
}

std::vector<std::string> false_claims(Repository& repository) {
  std::vector<std::string> lines;
  store::Statement makers = repository.db().prepare(
      "SELECT m.digest, o.bytes FROM version_makers m JOIN operations o ON o.id = m.operation ORDER BY o.seq");
  while (makers.step()) {
    const Digest version = makers.digest(0);
    if (!repository.store().has(ObjectKind::kManifest, version) || erasure_of(repository, version)) continue;
    try {
      const std::string wrong = false_claim(decode(makers.blob(1)), repository.store().summarize(version));
      if (!wrong.empty()) lines.push_back(wrong);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;  // what is damaged is said of the version
    }
  }
  return lines;
}

}  // namespace mlx::registry
