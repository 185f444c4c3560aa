// Roots for gc: what operations name, according to their kinds, and what pointers name.
#include "registry/maintenance/gc.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/clock.h"
#include "base/error.h"
#include "base/git.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/maintenance/check_metadata.h"
#include "registry/operations/clock_doubt.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/operations/undone.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/seen_heads.h"
#include "registry/sync/transfer.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "store/maintenance/repair.h"
#include "store/remote/encrypted_remote.h"
#include "store/remote/folder_remote.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kMaxPointer = 64 << 10;
constexpr std::string_view kPrefix = "sha256:";
constexpr std::size_t kHexDigits = 64;

// Every digest in a text. A pointer with an unfinished merge names two.
void digests_in(std::string_view text, std::vector<Digest>& found) {
  for (std::size_t at = text.find(kPrefix); at != std::string_view::npos; at = text.find(kPrefix, at + 1)) {
    const std::string_view hex = text.substr(at + kPrefix.size(), kHexDigits);
    if (hex.size() != kHexDigits || hex.find_first_not_of("0123456789abcdef") != std::string_view::npos) continue;
    found.push_back(Digest::parse(hex));
  }
}

void pointed_at(Repository& repository, std::vector<Digest>& manifests) {
  for (const Pointer& pointer : all_pointers(repository)) manifests.push_back(pointer.digest);
  const std::optional<std::string> git = find_git_root(repository.root());
  if (!git) return;
  for (const auto& [path, text] : git_files_anywhere(*git, ".mlx", kMaxPointer)) digests_in(text, manifests);
}

constexpr Role kKeptManifests[] = {Role::kVersion, Role::kReference, Role::kCheckpoint};
constexpr Role kKeptThere[] = {Role::kVersion, Role::kReference};  // checkpoints do not travel

void add_roots(const Content& content, std::span<const Role> manifests, store::GcRoots& roots) {
  for (const Role role : manifests)
    roots.manifests.insert(roots.manifests.end(), content.of(role).begin(), content.of(role).end());
  const std::vector<Digest> blobs = content.blobs();
  roots.blobs.insert(roots.blobs.end(), blobs.begin(), blobs.end());
}

// Adds what operations in force name.
void named_in_force(Repository& repository, store::GcRoots& roots) {
  const Kinds& kinds = repository.kinds();
  InForce stands(repository.db(), kinds);
  for (const Kind* const kind : kinds.rows()) {
    if (kind->content.fields().empty()) continue;
    visit_operations_of(repository.db(), std::string(kind->name), [&](const Operation& operation) {
      const Json body = parse_json(operation.body, operation.kind);
      if (!stands(operation, body)) return;
      Content content;
      content.add(kinds, operation, body);
      add_roots(content, kKeptManifests, roots);
    });
  }
}

// What was undone or forgotten can be restored during the grace period. So adds what recently accepted operations name,
// and what the operations name that those refer to, as an undo does. "Recently" is by this clone's own clock: times
// that others state do not count.
void recently_named(Repository& repository, std::int64_t grace_seconds, store::GcRoots& roots) {
  store::Database& db = repository.db();
  std::vector<Digest> mentioned;
  const auto keep = [&](const Operation& operation) {
    add_roots(content_of(repository.kinds(), operation), kKeptManifests, roots);
  };
  store::Statement select = db.prepare(
      "SELECT o.bytes FROM operations o LEFT JOIN taken t ON t.operation = o.id WHERE coalesce(t.time, ?1) >= ?1");
  select.bind(unix_micros() - grace_seconds * 1'000'000);
  while (select.step()) {
    const Operation operation = decode(select.blob(0));
    keep(operation);
    digests_in(operation.body, mentioned);
  }
  store::Statement by_id = db.prepare("SELECT bytes FROM operations WHERE id = ?");
  for (const Digest& id : mentioned) {
    by_id.bind(id);
    if (by_id.step()) keep(decode(by_id.blob(0)));
    by_id.reset();
  }
}

void keep_each_once(std::vector<Digest>& digests) {
  std::ranges::sort(digests);
  digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
}

store::GcRoots roots_of(Repository& repository, std::int64_t grace_seconds) {
  repository.refresh();
  store::GcRoots roots;
  roots.all_operations = true;
  named_in_force(repository, roots);
  recently_named(repository, grace_seconds, roots);
  pointed_at(repository, roots.manifests);
  keep_each_once(roots.manifests);
  keep_each_once(roots.blobs);
  // Erased content is not kept by anything; its plaintext is removed now.
  std::erase_if(roots.manifests, [&](const Digest& manifest) { return erasure_of(repository, manifest).has_value(); });
  return roots;
}

// Somebody who publishes heads there could leave some out, and what they name would look like garbage. Throws kConflict
// if the remote has unknown heads, or lacks heads that this clone has seen there.
void require_known_heads(Repository& repository, const std::vector<Digest>& heads, const RemoteConfig& config) {
  for (const Digest& head : heads) {
    if (is_recorded(repository.db(), head)) continue;
    throw Error(
        ErrorKind::kConflict,
        fmt::format("'{}' has operations that this clone does not have; they may need content that would be removed",
                    config.name),
        "run `mlx fetch` first");
  }
  const std::vector<Digest> lost = rolled_back(repository, config, heads, nullptr);
  if (lost.empty()) return;
  throw Error(ErrorKind::kConflict, rollback_text(config, lost.front()),
              fmt::format("`mlx push {}` sends it again", shell_quoted(config.name)));
}

// Adds what every operation known to this clone names, whether the remote's heads reach it or not.
store::GcRoots roots_of_remote(Repository& repository, store::Remote& remote, const RemoteConfig& config) {
  store::GcRoots roots;
  repository.refresh();
  require_known_heads(repository, remote.heads(), config);
  visit_operations(repository.db(), [&](const Operation& operation) {
    roots.operations.push_back(operation.id);
    add_roots(content_of(repository.kinds(), operation), kKeptThere, roots);
  });
  pointed_at(repository, roots.manifests);
  return roots;
}

// If the clock is doubtful, nothing counts as older than the grace period.
std::int64_t known_grace(Repository& repository, std::int64_t seconds, Progress& progress) {
  const std::int64_t now = unix_micros();
  if (seconds == 0 || !is_age_unknown(repository.db(), repository.root(), now, now - seconds * 1'000'000))
    return seconds;
  progress.warn(
      fmt::format("this machine's clock says {}, years after this repository was last used. It may be wrong, so "
                  "everything counts as younger than the grace period and stays; `--grace 0` ignores ages",
                  iso_time(now)));
  return std::max(seconds, now / 1'000'000);
}

// Refuses to collect while part of the history is unknown.
void require_history(Repository& repository) {
  const std::vector<std::string> unknown = unknown_history(repository);
  if (unknown.empty()) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("part of the recorded history is unknown, so garbage cannot be identified: {}", unknown[0]),
              is_history_given_up(repository.db())
                  ? "`mlx pull` fetches what a remote has; a fresh clone of a remote has no garbage"
                  : "`mlx pull` fetches what a remote has; `mlx fsck --rebuild` applies what the packs have");
}

}  // namespace

store::GcReport collect_garbage(Repository& repository, const store::GcOptions& options, Progress& progress) {
  repository.db();  // applies what a crash left in the journal, before anything is judged
  require_history(repository);
  store::GcOptions how = options;
  how.grace_seconds = known_grace(repository, options.grace_seconds, progress);
  how.thorough = repository.db().prepare("SELECT 1 FROM erasures LIMIT 1").step();  // nothing erased may remain
  const std::string cache = join_path(repository.mlx_folder(), "cache.db");
  // The WAL first: left beside a new database, it would be taken for that one's.
  how.spare = {cache + "-wal", cache, cache + "-shm"};
  const store::GcReport report = store::collect_garbage(
      repository.store(), [&] { return roots_of(repository, how.grace_seconds); }, how, progress);
  if (how.thorough && how.remove) store::shred_set_aside(repository.store());
  return report;
}

store::GcReport collect_garbage_of(Repository& repository, const RemoteConfig& config, const store::GcOptions& options,
                                   Progress& progress) {
  const std::unique_ptr<store::Remote> remote = open_remote(repository, config, Direction::kFetch);
  store::Store* const there = store::local_store(*remote);
  if (store::as_encrypted(*remote) != nullptr) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' is encrypted: versions cannot be told apart there", config.name),
                "push to a new remote, and remove this one");
  }
  if (there == nullptr) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' is not a folder on this machine: {}", config.name, config.url),
                "run gc where the remote's disk is");
  }
  return store::collect_garbage(
      *there, [&] { return roots_of_remote(repository, *remote, config); }, options, progress);
}

}  // namespace mlx::registry
