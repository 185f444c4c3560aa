// References are read from the projection for this repository, and from operations for a remote.
#include "registry/sync/gc.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/git.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/fsck.h"
#include "registry/keys/key_sync.h"
#include "registry/operations/clock_doubt.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/sync/seen_heads.h"
#include "registry/sync/transfer.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "store/pack/repair.h"
#include "store/remote/encrypted_remote.h"
#include "store/remote/folder_remote.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kMaxPointer = 64 << 10;
constexpr std::string_view kPrefix = "sha256:";
constexpr std::size_t kHexDigits = 64;

void select_digests(store::Database& db, const char* sql, std::vector<Digest>& found) {
  store::Statement select = db.prepare(sql);
  while (select.step()) found.push_back(select.digest(0));
}

// Every digest that stands in a text: a pointer with an unfinished merge names two.
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

// What was taken back, or forgotten in another way, can be brought back for the grace period: what operations name that
// this clone took in recently (by its own clock: what others say of theirs counts for nothing), and what is named by
// operations that they name, as an undo does.
void recently_named(store::Database& db, std::int64_t grace_seconds, store::GcRoots& roots) {
  std::vector<Operation> recent;
  std::vector<Digest> mentioned;
  store::Statement select = db.prepare(
      "SELECT o.bytes FROM operations o LEFT JOIN taken t ON t.operation = o.id WHERE coalesce(t.time, ?1) >= ?1");
  select.bind(unix_micros() - grace_seconds * 1'000'000);
  while (select.step()) {
    recent.push_back(decode(select.blob(0)));
    digests_in(recent.back().body, mentioned);
  }
  store::Statement by_id = db.prepare("SELECT bytes FROM operations WHERE id = ?");
  for (const Digest& id : mentioned) {
    by_id.bind(id);
    if (by_id.step()) recent.push_back(decode(by_id.blob(0)));
    by_id.reset();
  }
  const Content content = content_of(recent);
  roots.manifests.insert(roots.manifests.end(), content.manifests.begin(), content.manifests.end());
  for (const auto* blobs : {&content.series, &content.others}) {
    roots.blobs.insert(roots.blobs.end(), blobs->begin(), blobs->end());
  }
}

store::GcRoots roots_of(Repository& repository, std::int64_t grace_seconds) {
  repository.refresh();
  store::Database& db = repository.db();
  store::GcRoots roots;
  roots.all_operations = true;
  for (const char* sql :
       {"SELECT digest FROM versions", "SELECT digest FROM aliases", "SELECT digest FROM tags",
        "SELECT version FROM run_inputs", "SELECT version FROM run_outputs", "SELECT manifest FROM checkpoints"}) {
    select_digests(db, sql, roots.manifests);
  }
  select_digests(db, "SELECT blob FROM attachments", roots.blobs);
  select_digests(db, "SELECT blob FROM people", roots.blobs);
  select_digests(db, "SELECT metrics FROM runs WHERE metrics IS NOT NULL", roots.blobs);
  store::Statement code = db.prepare("SELECT code FROM runs");
  while (code.step()) {
    if (const std::optional<Digest> diff = code_diff_of(code.text(0))) roots.blobs.push_back(*diff);
  }
  recently_named(db, grace_seconds, roots);
  pointed_at(repository, roots.manifests);
  // What was erased is kept by nothing: where it stood in clear, it goes now.
  std::erase_if(roots.manifests, [&](const Digest& manifest) { return erasure_of(repository, manifest).has_value(); });
  return roots;
}

// Whoever may publish heads there can leave some out, so that what they name would look like garbage. kConflict where
// heads are unknown here, or some that this clone has seen there are gone.
void require_known_heads(Repository& repository, const std::vector<Digest>& heads, const RemoteConfig& config) {
  for (const Digest& head : heads) {
    if (is_recorded(repository.db(), head)) continue;
    throw Error(
        ErrorKind::kConflict,
        fmt::format("'{}' has operations that this clone does not have: what they name is not known", config.name),
        "run `mlx fetch` first");
  }
  const std::vector<Digest> lost = rolled_back(repository, config, heads, nullptr);
  if (lost.empty()) return;
  throw Error(ErrorKind::kConflict, rollback_text(config, lost.front()),
              fmt::format("`mlx push {}` sends it again", shell_quoted(config.name)));
}

// What any operation names that this clone knows, whether the remote's heads reach it or not.
store::GcRoots roots_of_remote(Repository& repository, store::Remote& remote, const RemoteConfig& config) {
  store::GcRoots roots;
  repository.refresh();
  require_known_heads(repository, remote.heads(), config);
  const std::vector<Operation> operations = repository.operations();
  for (const Operation& operation : operations) roots.operations.push_back(operation.id);
  Content content = content_of(operations);
  roots.manifests = std::move(content.manifests);
  for (const auto* blobs : {&content.series, &content.others}) {
    roots.blobs.insert(roots.blobs.end(), blobs->begin(), blobs->end());
  }
  pointed_at(repository, roots.manifests);
  return roots;
}

// By a clock that cannot be right nothing is older than the grace period.
std::int64_t known_grace(Repository& repository, std::int64_t seconds, Progress& progress) {
  const std::int64_t now = unix_micros();
  if (seconds == 0 || !is_age_unknown(repository.db(), repository.root(), now, now - seconds * 1'000'000))
    return seconds;
  progress.warn(
      fmt::format("this machine's clock says {}, years after this repository was last used: if it is wrong, nobody "
                  "knows what is younger than the grace period, and all of it stays; `--grace 0` sets it aside",
                  iso_time(now)));
  return std::max(seconds, now / 1'000'000);
}

// What nobody remembers is no garbage.
void require_history(Repository& repository) {
  const std::vector<std::string> unknown = unknown_history(repository);
  if (unknown.empty()) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("not everything that was recorded here is known, so garbage cannot be told: {}", unknown[0]),
              is_history_given_up(repository.db())
                  ? "`mlx pull` brings what a remote has; a fresh clone of a remote holds no garbage"
                  : "`mlx pull` brings what a remote has, `mlx fsck --rebuild` takes in what the packs have");
}

}  // namespace

store::GcReport collect_garbage(Repository& repository, const store::GcOptions& options, Progress& progress) {
  repository.db();  // what a crash has left in the journal is applied before anything is judged
  require_history(repository);
  store::GcOptions how = options;
  how.grace_seconds = known_grace(repository, options.grace_seconds, progress);
  how.thorough = repository.db().prepare("SELECT 1 FROM erasures LIMIT 1").step();  // nothing of it may stay
  const std::string cache = join_path(repository.mlx_folder(), "cache.db");
  // The WAL first: left beside a new database it would be taken for that one's.
  how.spare = {cache + "-wal", cache, cache + "-shm"};
  const store::GcReport report = store::collect_garbage(
      repository.store(), [&] { return roots_of(repository, how.grace_seconds); }, how, progress);
  if (how.thorough && how.remove) store::shred_set_aside(repository.store());
  return report;
}

store::GcReport collect_garbage_of(Repository& repository, const RemoteConfig& config, const store::GcOptions& options,
                                   Progress& progress) {
  const std::unique_ptr<store::Remote> remote = open_remote(repository, config, Towards::kHere);
  store::Store* const there = store::local_store(*remote);
  if (store::as_encrypted(*remote) != nullptr) {
    throw Error(ErrorKind::kUsage,
                fmt::format("'{}' is encrypted: what it holds can not be told apart there", config.name),
                "push to a new remote, and remove this one");
  }
  if (there == nullptr) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' is not in a folder of this machine: {}", config.name, config.url),
                "run gc where the remote's disk is");
  }
  return store::collect_garbage(
      *there, [&] { return roots_of_remote(repository, *remote, config); }, options, progress);
}

}  // namespace mlx::registry
