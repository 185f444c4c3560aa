// Push and fetch. Content is sent before the operations that name it, and operations before the heads that name them,
// so everything that a remote's heads reach is complete. What arrives is judged before it is accepted (receive.h).
#include "registry/sync/sync.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/keys/keys.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/operations/undone.h"
#include "registry/record/judge.h"
#include "registry/record/lost.h"
#include "registry/record/remarks.h"
#include "registry/sync/claims.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/sync/fetched_content.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/numbers.h"
#include "registry/sync/receive.h"
#include "registry/sync/repair_remote.h"
#include "registry/sync/seen_heads.h"
#include "registry/sync/transfer.h"
#include "registry/sync/unpublished.h"
#include "registry/sync/unrelated.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "store/maintenance/repair.h"
#include "store/remote/encrypted_remote.h"
#include "store/remote/remote.h"
#include "store/remote/transfer.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;
using store::ObjectRef;

constexpr int kPublishTries = 3;
constexpr std::size_t kOperationsAsked = 256;  // how many operations that the remote should have are checked by a push

// A remote that does not exist yet. For dry runs: nothing is ever sent to it.
class EmptyRemote final : public store::Remote {
 public:
  std::vector<Digest> heads() override { return {}; }
  std::vector<Digest> operations() override { return {}; }
  std::vector<store::ObjectKey> missing(const std::vector<store::ObjectKey>& keys) override { return keys; }
  void send(const std::vector<store::ObjectKey>&, const store::ReadStored&, Progress&) override { CHECK(false); }
  void receive(const std::vector<store::ObjectKey>&, const store::TakeStored&, Progress&) override { CHECK(false); }
  bool publish_heads(const std::vector<Digest>&, const std::vector<Digest>&) override { return false; }
  std::optional<Bytes> read_file(const std::string&) override { return {}; }
  bool write_file(const std::string&, const std::optional<Bytes>&, ByteView) override { return false; }
};

struct ToSend {
  std::vector<ObjectRef> objects;
  std::vector<ObjectRef> nowhere;  // versions that are neither here nor on the remote
};

// Collects everything that a version consists of; false, and nothing, if some of it is not here.
bool collect_version(const store::Store& store, const Digest& manifest, std::vector<ObjectRef>& objects) {
  if (!store.has(ObjectKind::kManifest, manifest)) return false;
  std::vector<ObjectRef> parts;
  try {
    store.visit_reachable_manifest(manifest, [&](ObjectKind kind, const Digest& id) {
      if (!store.has(kind, id)) fail(ErrorKind::kNotFound, "not here");
      parts.emplace_back(kind, id);
    });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return false;
  }
  objects.insert(objects.end(), parts.begin(), parts.end());
  return true;
}

// Fetches what is missing here of a version whose files are known, and is missing on the target remote too. A lazy
// clone fetches it from its origin. False if the origin lacks it.
bool fetch_for_push(Repository& repository, const Digest& manifest, Progress& progress) {
  if (!is_lazy(repository)) return false;
  try {
    fetch_on_demand(repository, manifest, progress);
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return false;
  }
}

// The content to send. A version that is incomplete here came from elsewhere: the remote must have it, or this clone
// must be lazy and fetch it, unless `progress` is nullptr.
ToSend objects_to_send(Repository& repository, store::Remote& remote, const Content& content, const std::string& domain,
                       Progress* progress) {
  const store::Store& store = repository.store();
  ToSend found;
  std::vector<Digest> manifests = content.of(Role::kVersion);
  for (const Pointer& pointer : all_pointers(repository)) {
    // Added but not committed; the content of committed versions is sent with the operations that made them.
    if (version_of(repository, pointer.artifact, pointer.digest)) continue;
    if (domain.empty() || domain_of(repository, pointer.artifact) == domain) manifests.push_back(pointer.digest);
  }
  DigestSet seen;
  std::vector<ObjectRef> elsewhere;
  for (const Digest& manifest : manifests) {
    if (!seen.insert(manifest).second || erasure_of(repository, manifest)) continue;
    if (!collect_version(store, manifest, found.objects)) elsewhere.emplace_back(ObjectKind::kManifest, manifest);
  }
  found.nowhere = store::missing_objects(remote, elsewhere);
  std::erase_if(found.nowhere, [&](const ObjectRef& version) {
    return progress && fetch_for_push(repository, version.second, *progress) &&
           collect_version(store, version.second, found.objects);
  });
  if (!found.nowhere.empty()) {
    const Losses lost = lost_versions(repository);
    std::erase_if(found.nowhere, [&](const ObjectRef& version) { return lost.contains(version.second); });
  }
  for (const Digest& blob : content.blobs()) {
    const auto collect = [&](ObjectKind kind, const Digest& id) { found.objects.emplace_back(kind, id); };
    if (store.has_blob(blob)) store.visit_reachable_blob(blob, collect);
  }
  return found;
}

void require_none(const std::vector<ObjectRef>& nowhere) {
  if (nowhere.empty()) return;
  throw Error(ErrorKind::kNotFound,
              fmt::format("the content of {} is neither here nor on the remote, for example {}",
                          counted(nowhere.size(), "version"), nowhere.front().second.brief()),
              "fetch everything from a remote that has it (mlx fetch --all), or push from a clone that does; where "
              "nobody has it any more, "
              "`mlx push --without-missing` records that it is lost, and continues");
}

// The operations in force, and their content.
struct ContentMakers {
  const Kinds& kinds;
  OperationStage& operations;
  InForce stands;
  Content content(const Wanted& wanted = {}) {
    return content_of(kinds, operations, [&](const Operation& operation, const Json& body) {
      return stands(operation, body) && (!wanted || wanted(operation, body));
    });
  }
};

// The operations whose content must be present. If there is an undo among the new ones, it may restore what an earlier
// push left out; then all are returned.
OperationStage& content_makers(Repository& repository, OperationStage& lacking, std::optional<Beyond>& all) {
  if (!holds_undo(repository.kinds(), lacking)) return lacking;
  all.emplace(beyond(repository, {}));
  return all->operations;
}

// The domains of this clone's keys and of the content. A domain without a key (an erased one) cannot be sent to, and is
// refused later.
std::set<std::string> domains_of(Repository& repository, ContentMakers& makers) {
  const std::vector<std::string> known = store::domains(repository.keys().file());
  std::set<std::string> domains(known.begin(), known.end());
  (void)makers.content([&](const Operation& operation, const Json& body) {
    domains.insert(domain_of_content(repository, operation, body));
    return false;
  });
  return domains;
}

// Passes to `use` the objects that the content of `operations` consists of, one domain at a time if the remote is
// encrypted.
void for_each_domain(Repository& repository, store::Remote& remote, OperationStage& operations, Progress* progress,
                     const std::function<void(ToSend)>& use) {
  ContentMakers makers{repository.kinds(), operations, InForce(repository.db(), repository.kinds())};
  store::EncryptedRemote* const encrypted = store::as_encrypted(remote);
  if (encrypted == nullptr) {
    use(objects_to_send(repository, remote, makers.content(), {}, progress));
    return;
  }
  for (const std::string& domain : domains_of(repository, makers)) {
    encrypted->set_domain(domain);
    const Content content = makers.content([&](const Operation& operation, const Json& body) {
      return domain_of_content(repository, operation, body) == domain;
    });
    use(objects_to_send(repository, remote, content, domain, progress));
  }
}

void warn_of_damage(store::Remote& remote, const RemoteConfig& config, Progress& progress) {
  for (const std::string& what : remote.damage())
    progress.warn(fmt::format("'{}' has a damaged pack: {}; `mlx push --repair {}` mends what it can", config.name,
                              what, shell_quoted(config.name)));
}

void warn_of_rollback(Repository& repository, const RemoteConfig& config, const std::vector<Digest>& heads,
                      OperationStage* received, const std::string& way_out, Progress& progress) {
  const std::vector<Digest> lost = rolled_back(repository, config, heads, received);
  if (!lost.empty()) progress.warn(fmt::format("{}; {}", rollback_text(config, lost.front()), way_out));
}

void mend_poisoned(Repository& repository, store::Remote& remote, const RemoteConfig& config,
                   const std::vector<ObjectRef>& objects, SyncResult& result, Progress& progress) {
  store::RepairReport report;
  const std::size_t count = drop_poisoned(repository, remote, objects, report, progress);
  if (count > 0)
    progress.warn(fmt::format("'{}' had {} under wrong ids: this clone's objects replace them", config.name,
                              counted(count, "object")));
  result.saved += report.saved_objects;
  result.set_aside.insert(result.set_aside.end(), report.set_aside.begin(), report.set_aside.end());
}

constexpr std::size_t kOperationsAtOnce = std::size_t{1} << 14;  // bounds memory, whatever their number

// Writes operations into packs, from which objects are sent.
void seal_operations(store::Store& store, OperationStage& operations) {
  std::unique_ptr<store::Batch> batch;
  std::size_t count = 0;
  operations.visit([&](const Operation& operation) {
    if (store.has(ObjectKind::kOperation, operation.id)) return;
    if (!batch) batch = store.begin();
    batch->add(ObjectKind::kOperation, encode(operation));
    if (++count % kOperationsAtOnce != 0) return;
    batch->commit();
    batch.reset();
  });
  if (batch) batch->commit();
}

void send_operations(Transfer& transfer, OperationStage& operations) {
  std::vector<ObjectRef> objects;
  operations.visit_ids([&](const Digest& id) {
    objects.emplace_back(ObjectKind::kOperation, id);
    if (objects.size() == kOperationsAtOnce) send_missing(transfer, std::exchange(objects, {}));
  });
  send_missing(transfer, std::move(objects));
}

OperationStage received_of(Repository& repository, store::Remote& remote, const RemoteConfig& config,
                           const std::vector<Digest>& heads, Progress& progress) try {
  return receive_operations(repository, remote, heads, progress);
} catch (const Error& error) {
  throw with_way_round(error, config);
}

// Sends again what the remote should hold and this clone has.
void send_lost(Repository& repository, Transfer& transfer, const RemoteConfig& config,
               const std::vector<Digest>& heads) {
  const std::vector<Digest> lost = lost_operations(repository, transfer.remote, heads, kOperationsAsked);
  if (lost.empty()) return;
  transfer.progress.warn(
      fmt::format("'{}' has lost {}, sent again now; `mlx push --repair {}` finds everything that it has lost",
                  config.name, counted(lost.size(), "operation"), shell_quoted(config.name)));
  OperationStage again;
  store::Statement select = repository.db().prepare("SELECT bytes FROM operations WHERE id = ?");
  for (const Digest& id : lost) {
    if (select.bind(id).step()) again.add(decode(select.blob(0)));
    select.reset();
  }
  again.settle();
  seal_operations(repository.store(), again);
  const SyncResult before = transfer.result;
  send_operations(transfer, again);
  transfer.result = before;  // do not count as new
}

// For a dry run, since a push would make the remote.
std::unique_ptr<store::Remote> open_or_empty(Repository& repository, const RemoteConfig& config) {
  try {
    return open_remote(repository, config, Direction::kFetch);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return std::make_unique<EmptyRemote>();
  }
}

}  // namespace

std::vector<Version> missing_versions(Repository& repository, const RemoteConfig& config, bool repair,
                                      Progress& progress) {
  const std::unique_ptr<store::Remote> remote = open_or_empty(repository, config);
  const std::vector<Digest> heads = remote->heads();
  if (!repair && !knows_all(repository, heads)) throw pull_first(config);
  std::optional<Beyond> all;
  Beyond own = beyond(repository, repair ? std::vector<Digest>() : heads);
  OperationStage& makers = repair ? own.operations : content_makers(repository, own.operations, all);
  DigestSet nowhere;
  for_each_domain(repository, *remote, makers, &progress, [&](const ToSend& found) {
    for (const ObjectRef& version : found.nowhere) nowhere.insert(version.second);
  });
  std::vector<Version> missing = versions(repository);
  std::erase_if(missing, [&](const Version& version) { return !nowhere.contains(version.digest); });
  return missing;
}

SyncResult push_dry_run(Repository& repository, const RemoteConfig& config, bool without_missing) {
  SyncResult result;
  const std::unique_ptr<store::Remote> remote = open_or_empty(repository, config);
  const std::vector<Digest> heads = remote->heads();
  if (!knows_all(repository, heads)) throw pull_first(config);
  (void)settle_numbers(repository, false);
  Beyond own = beyond(repository, heads);
  OperationStage& lacking = own.operations;
  require_publishable(repository, lacking);
  std::optional<Beyond> all;
  OperationStage& makers = content_makers(repository, lacking, all);
  for_each_domain(repository, *remote, makers, nullptr, [&](ToSend found) {
    if (!is_lazy(repository) && !without_missing) require_none(found.nowhere);
    std::vector<ObjectRef>& objects = found.objects;
    std::ranges::sort(objects);
    objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
    objects = store::missing_objects(*remote, objects);
    result.objects += objects.size();
    result.bytes += store::stored_bytes(repository.store(), objects);
  });
  result.operations = lacking.size();
  result.versions = content_of(repository.kinds(), lacking).versions;
  return result;
}

SyncResult push(Repository& repository, const RemoteConfig& config, Progress& progress, bool repair) {
  renew_used_domains(repository);
  const BeforeSending judge = judge_before_sending(repository);
  const auto remote = open_remote(repository, config, repair ? Direction::kRepair : Direction::kPush, judge);
  SyncResult result;
  if (repair) {
    if (judge) judge(readable_heads(*remote));
    store::RepairReport report;
    remote->repair(report, progress);
    result.saved = report.saved_objects;
    result.set_aside = std::move(report.set_aside);
    result.mended = remote->mended();
  }
  warn_of_damage(*remote, config, progress);
  if (repair) restate_false_claims(repository, *remote, progress);
  // A missing object is fetched with its whole version or not at all, and never singly from the remote under repair.
  repository.store().on_missing({});
  Transfer transfer{repository.store(), *remote, progress, result};
  for (int tries = 0; tries < kPublishTries; ++tries) {
    const std::vector<Digest> before = remote->heads();
    const HeadsThere there = judge_heads(repository, *remote, config, before, repair, progress);
    (void)settle_numbers(repository, false);
    if (!there.left_out) warn_of_rollback(repository, config, before, nullptr, "this push sends it again", progress);
    Beyond own = beyond(repository, there.known);
    OperationStage& lacking = own.operations;
    require_publishable(repository, lacking);
    std::optional<Beyond> all;
    if (repair) all.emplace(beyond(repository, {}));
    OperationStage& makers = all ? all->operations : content_makers(repository, lacking, all);
    std::vector<ObjectRef> nowhere;
    for_each_domain(repository, *remote, makers, &progress, [&](ToSend found) {
      if (!repair) require_none(found.nowhere);
      nowhere.insert(nowhere.end(), found.nowhere.begin(), found.nowhere.end());
      if (repair) mend_poisoned(repository, *remote, config, found.objects, result, progress);
      send_missing(transfer, std::move(found.objects));
    });
    if (!repair) send_lost(repository, transfer, config, there.known);
    OperationStage& wanted = repair ? all->operations : lacking;
    if (wanted.empty()) return result;
    seal_operations(repository.store(), wanted);
    const SyncResult content = result;
    send_operations(transfer, wanted);
    if (!repair) result = content;  // counts new operations
    require_none(nowhere);
    if (lacking.empty() && !there.left_out) return result;
    std::vector<Digest> after = own.heads;
    after.insert(after.end(), there.kept.begin(), there.kept.end());
    if (remote->publish_heads(before, after)) {
      remember_heads(repository, config, own.heads);
      result.operations = lacking.size();
      result.versions = content_of(repository.kinds(), lacking).versions;
      return result;
    }
  }
  throw pull_first(config);  // somebody else was faster each time
}

RemoteHistory remote_history(Repository& repository, const RemoteConfig& config, Progress& progress) {
  const auto remote = open_remote(repository, config, Direction::kFetch);
  const std::vector<Digest> heads = remote->heads();
  return {heads, receive_operations(repository, *remote, heads, progress)};
}

SyncResult fetch(Repository& repository, const RemoteConfig& config, const FetchOptions& options, Progress& progress) {
  const auto remote = open_remote(repository, config, Direction::kFetch);
  warn_of_damage(*remote, config, progress);
  const bool everything = options.content == FetchContent::kEverything;
  if (!options.dry_run) repository.store().keep_found();
  SyncResult result;
  Transfer transfer{repository.store(), *remote, progress, result, tree_check(repository, progress)};
  const std::vector<Digest> heads = remote->heads();
  OperationStage received = received_of(repository, *remote, config, heads, progress);
  result.operations = received.size();
  result.met = require_vouched(repository, received);
  options.allow_unrelated ? require_may_join(repository, received) : require_related(repository, config, received);
  warn_of_rollback(repository, config, heads, &received,
                   fmt::format("`mlx push {}` sends it again", shell_quoted(config.name)), progress);
  const Content content = content_of(repository.kinds(), received);
  require_true_claims(repository, received, *remote, progress);
  result.versions = content.versions;
  if (options.dry_run) {
    for (const auto& [domain, manifests] : wanted_manifests(repository, everything)) {
      for (const Digest& manifest : manifests) {
        if (!repository.store().has(ObjectKind::kManifest, manifest)) ++result.objects;
      }
    }
    return result;
  }
  repository.store().use_domain(store::kHistoryDomain);
  receive_blobs(transfer, content.of(Role::kSeries), true);  // before the operations: their apply reads them
  try {
    repository.merge(received);
  } catch (const Error& error) {
    throw with_way_round(error, config);
  }
  if (options.allow_unrelated) join_histories(repository);  // also after a fetch that was interrupted here
  result.remarks = remarks_on(repository, received);
  remember_heads(repository, config, heads);
  // For all operations, not only the new ones: this completes a fetch that was interrupted here.
  for (const auto& [domain, blobs] : wanted_attachments(repository)) {
    repository.store().use_domain(domain);
    receive_blobs(transfer, blobs, false);
  }
  const Losses lost = lost_versions(repository);
  ByDomain wanted = wanted_manifests(repository, everything);
  for (auto& [domain, manifests] : wanted) {
    repository.store().use_domain(domain);
    leave_out_erased(repository, *remote, manifests);
    const auto receive = [&](const std::vector<Digest>& some) {
      options.content == FetchContent::kTrees ? receive_trees(transfer, some) : receive_manifests(transfer, some);
    };
    receive(without_lost(repository, manifests, lost, result, [&](const Digest& one) { receive({one}); }));
  }
  return result;
}

}  // namespace mlx::registry
