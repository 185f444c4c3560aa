#include "registry/sync/claims.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "registry/keys/trust.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/versions/domains.h"
#include "store/remote/transfer.h"

namespace mlx::registry {
namespace {

using store::ManifestSummary;
using store::ObjectKind;
using store::ObjectRef;

Error false_claim_error(const std::string& wrong) {
  return Error(ErrorKind::kRefused, wrong,
               "the signer was wrong or lied; `mlx push --repair` in a clone without it leaves it out, and in a clone "
               "that has recorded it corrects the figures");
}

// Receives what it can of `roots`. A damaged one does not keep the others from arriving; nobody can read it.
void receive_readable(store::Remote& remote, store::Store& to, const std::vector<ObjectRef>& roots,
                      Progress& progress) {
  try {
    store::receive_objects(remote, to, roots, progress);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    if (roots.size() == 1) return;
    const auto middle = roots.begin() + static_cast<std::ptrdiff_t>(roots.size() / 2);
    receive_readable(remote, to, {roots.begin(), middle}, progress);
    receive_readable(remote, to, {middle, roots.end()}, progress);
  }
}

// File lists of versions that are not here, peeked from the remote: those that it has and that are readable. Deleted
// with the object.
class PeekedTrees {
 public:
  PeekedTrees(Repository& repository, store::Remote& remote, const std::vector<Digest>& versions, Progress& progress)
      : here_(repository.store()) {
    std::vector<ObjectRef> named, roots;
    for (const Digest& version : versions) {
      if (!here_.has(ObjectKind::kManifest, version)) named.emplace_back(ObjectKind::kManifest, version);
    }
    std::ranges::sort(named);
    named.erase(std::unique(named.begin(), named.end()), named.end());
    if (named.empty()) return;
    std::vector<ObjectRef> nowhere = store::missing_objects(remote, named);  // reported by those who need them
    std::ranges::sort(nowhere);
    std::ranges::set_difference(named, nowhere, std::back_inserter(roots));
    if (roots.empty()) return;
    folder_.emplace(repository.environment());
    store::Store::create(folder_->path(), repository.disk());
    peeked_.emplace(folder_->path(), repository.disk(), repository.pool(),
                    store::StoreOptions{.interruption = &repository.interruption()});
    receive_readable(remote, *peeked_, roots, progress);
    peeked_->reload();
  }

  std::optional<ManifestSummary> find(const Digest& version) const try {
    if (here_.has(ObjectKind::kManifest, version)) return here_.summarize(version);
    if (peeked_ && peeked_->has(ObjectKind::kManifest, version)) return peeked_->summarize(version);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;  // reported by those who need it
    return std::nullopt;
  }

 private:
  const store::Store& here_;
  std::optional<TempFolder> folder_;
  std::optional<store::Store> peeked_;
};

// True if somebody else signed an operation that descends from it: then it is history that no clone can leave out.
// `each` calls its argument with operations, parents first.
template <typename Each>
bool others_built_on(const Operation& claim, const Each& each) {
  std::unordered_set<Digest, DigestHash> behind = {claim.id};
  bool any = false;
  each([&](const Operation& operation) {
    if (std::ranges::none_of(operation.parents, [&](const Digest& p) { return behind.contains(p); })) return;
    behind.insert(operation.id);
    any = any || operation.signer != claim.signer;
  });
  return any;
}

}  // namespace

// Figures that are missing or not numbers are left to its apply.
std::string false_claim(const Kinds& kinds, const Operation& operation, const ManifestSummary& tree) {
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  const auto is = [&](const char* key, std::uint64_t figure) {
    const auto found = body.find(key);
    return found == body.end() || !found->is_number_integer() || *found == figure;
  };
  if (is("files", tree.files) && is("bytes", tree.bytes)) return {};
  return fmt::format(
      "operation {}, signed by {}, claims that the version has {} files with {} bytes, but it has {} with {}",
      described(kinds, operation), operation.is_signed() ? store::ssh_fingerprint(operation.signer) : "nobody",
      body.value("files", Json()).dump(), body.value("bytes", Json()).dump(), tree.files, tree.bytes);
}

void require_true_claims(Repository& repository, OperationStage& arriving, store::Remote& remote, Progress& progress) {
  std::vector<std::pair<std::uint64_t, Digest>> claims;  // place and version
  std::vector<Digest> versions;
  std::uint64_t place = 0;
  arriving.visit([&](const Operation& operation) {
    ++place;
    for (const Digest& version : content_of(repository.kinds(), operation).of(Role::kVersion)) {
      if (erasure_of(repository, version)) continue;
      claims.emplace_back(place, version);
      versions.push_back(version);
    }
  });
  const PeekedTrees trees(repository, remote, versions, progress);
  for (const auto& [at, version] : claims) {
    const std::optional<ManifestSummary> tree = trees.find(version);
    if (!tree) continue;
    const Operation operation = arriving.at(at);
    const std::string wrong = false_claim(repository.kinds(), operation, *tree);
    if (wrong.empty()) continue;
    if (!others_built_on(operation, [&](const OperationStage::Visit& visit) { arriving.visit(visit); }))
      throw false_claim_error(wrong);
    progress.warn(wrong + "; others have built on it");
  }
}

void restate_false_claims(Repository& repository, store::Remote& remote, Progress& progress) {
  store::Database& db = repository.db();
  std::vector<std::pair<Digest, Digest>> makers;  // operation and version
  std::vector<Digest> versions;
  store::Statement select = db.prepare("SELECT operation, digest FROM version_makers ORDER BY seq");
  while (select.step()) {
    if (erasure_of(repository, select.digest(1))) continue;
    makers.emplace_back(select.digest(0), select.digest(1));
    versions.push_back(select.digest(1));
  }
  select.reset();
  const PeekedTrees trees(repository, remote, versions, progress);
  store::Statement read = db.prepare("SELECT bytes FROM operations WHERE id = ?");
  for (const auto& [maker, version] : makers) {
    const std::optional<ManifestSummary> tree = trees.find(version);
    if (!tree || !read.bind(maker).step()) continue;
    const Operation operation = decode(read.blob(0));
    read.reset();
    const std::string wrong = false_claim(repository.kinds(), operation, *tree);
    if (wrong.empty() ||
        others_built_on(operation, [&](const OperationStage::Visit& visit) { visit_operations(db, visit); }))
      continue;
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (tree->files > kMost || tree->bytes > kMost) continue;  // beyond what an operation can claim
    Json body = parse_json(operation.body, "operation " + operation.id.brief());
    body["files"] = tree->files;
    body["bytes"] = tree->bytes;
    body["message"] = fmt::format("puts right what {} says", operation.id.brief());
    repository.record(operation.kind, body);
    progress.warn(wrong + ": put right");
  }
}

std::function<void(const ManifestSummary&)> tree_check(Repository& repository, Progress& progress) {
  return [&repository, &progress](const ManifestSummary& tree) {
    for (const std::string& wrong : false_claims_of(repository, tree)) progress.warn(wrong);
  };
}

std::vector<std::string> false_claims_of(Repository& repository, const ManifestSummary& tree) {
  std::vector<std::string> lines;
  store::Statement makers = repository.db().prepare(
      "SELECT o.bytes FROM version_makers m JOIN operations o ON o.id = m.operation WHERE m.digest = ? ORDER BY o.seq");
  for (makers.bind(tree.id); makers.step();) {
    std::string wrong = false_claim(repository.kinds(), decode(makers.blob(0)), tree);
    if (!wrong.empty()) lines.push_back(std::move(wrong));
  }
  return lines;
}

std::vector<std::string> false_claims(Repository& repository) {
  std::vector<std::string> lines;
  store::Statement makers = repository.db().prepare(
      "SELECT m.digest, o.bytes FROM version_makers m JOIN operations o ON o.id = m.operation ORDER BY o.seq");
  store::Statement true_claim =
      repository.db().prepare("SELECT 1 FROM version_makers WHERE digest = ? AND files = ? AND bytes = ?");
  while (makers.step()) {
    const Digest version = makers.digest(0);
    if (!repository.store().has(ObjectKind::kManifest, version) || erasure_of(repository, version)) continue;
    try {
      const ManifestSummary tree = repository.store().summarize(version);
      const std::string wrong = false_claim(repository.kinds(), decode(makers.blob(1)), tree);
      if (!wrong.empty() && !true_claim.bind(version, tree.files, tree.bytes).step()) lines.push_back(wrong);
      true_claim.reset();
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;  // damage is reported for the version
    }
  }
  return lines;
}

}  // namespace mlx::registry
