// Push and fetch. Content goes before the operations that name it, and operations before the heads that name them, so
// that what a remote's heads reach is always whole; on this side nothing that arrives is believed before it is
// verified.
#include "registry/sync.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "registry/artifacts.h"
#include "registry/content.h"
#include "registry/pointers.h"
#include "registry/transfer.h"
#include "registry/undo.h"
#include "store/remote.h"
#include "store/transfer.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;
using store::ObjectRef;
using DigestSet = std::unordered_set<Digest, DigestHash>;

constexpr int kPublishTries = 3;

Error pull_first(const RemoteConfig& remote) {
  return Error(ErrorKind::kConflict, fmt::format("'{}' has operations that this clone does not have", remote.name),
               "run 'mlx pull' first");
}

// What a remote holds that is not there yet. For dry runs: nothing is ever sent to it.
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

// Operations of `all` that no head of the remote reaches.
std::vector<Operation> beyond(const std::vector<Operation>& all, const std::vector<Digest>& remote_heads) {
  std::unordered_map<Digest, const Operation*, DigestHash> by_id;
  for (const Operation& operation : all) by_id.emplace(operation.id, &operation);
  DigestSet reached;
  for (std::vector<Digest> todo = remote_heads; !todo.empty();) {
    const Digest id = todo.back();
    todo.pop_back();
    if (!reached.insert(id).second) continue;
    const std::vector<Digest>& parents = by_id.at(id)->parents;
    todo.insert(todo.end(), parents.begin(), parents.end());
  }
  std::vector<Operation> lacking;
  std::ranges::copy_if(all, std::back_inserter(lacking), [&](const Operation& o) { return !reached.contains(o.id); });
  return lacking;
}

bool knows_all(const std::vector<Operation>& all, const std::vector<Digest>& heads) {
  DigestSet known;
  for (const Operation& operation : all) known.insert(operation.id);
  return std::ranges::all_of(heads, [&](const Digest& head) { return known.contains(head); });
}

// The heads of a set of operations that holds the parents of all of its members.
std::vector<Digest> heads_of(const std::vector<Operation>& all) {
  DigestSet parents;
  for (const Operation& operation : all) parents.insert(operation.parents.begin(), operation.parents.end());
  std::vector<Digest> heads;
  for (const Operation& operation : all) {
    if (!parents.contains(operation.id)) heads.push_back(operation.id);
  }
  std::ranges::sort(heads);
  return heads;
}

// Content to send. A version whose tree is not here came from elsewhere with its operations only; the remote must have
// it.
std::vector<ObjectRef> objects_to_send(Repository& repository, store::Remote& remote, const Content& content) {
  const store::Store& store = repository.store();
  std::vector<ObjectRef> objects, elsewhere;
  const auto collect = [&](ObjectKind kind, const Digest& id) { objects.emplace_back(kind, id); };
  std::vector<Digest> manifests = content.manifests;
  for (const Pointer& pointer : all_pointers(repository)) {
    // Added and not committed; the content of versions goes with the operations that made them.
    if (!version_of(repository, pointer.artifact, pointer.digest)) manifests.push_back(pointer.digest);
  }
  DigestSet seen;
  for (const Digest& manifest : manifests) {
    if (!seen.insert(manifest).second) continue;
    if (store.has(ObjectKind::kManifest, manifest)) {
      store.visit_reachable_manifest(manifest, collect);
    } else {
      elsewhere.emplace_back(ObjectKind::kManifest, manifest);
    }
  }
  if (const auto nowhere = store::missing_objects(remote, elsewhere); !nowhere.empty()) {
    throw Error(ErrorKind::kNotFound,
                fmt::format("the content of {} versions is neither here nor on the remote, as {}", nowhere.size(),
                            nowhere.front().second.brief()),
                "fetch everything from the remote that has it: mlx fetch --all");
  }
  for (const auto* blobs : {&content.series, &content.others}) {
    for (const Digest& blob : *blobs) {
      if (store.has_blob(blob)) store.visit_reachable_blob(blob, collect);
    }
  }
  return objects;
}

// What new operations name. An undo among them may bring back what was left out of an earlier push.
Content content_to_send(Repository& repository, const std::vector<Operation>& all,
                        const std::vector<Operation>& lacking) {
  const bool undoes =
      std::ranges::any_of(lacking, [](const Operation& operation) { return operation.kind == "operation.undo"; });
  return content_of(in_force(repository.db(), undoes ? all : lacking));
}

// Into packs, from which a remote is sent objects.
void seal_operations(store::Store& store, const std::vector<Operation>& operations) {
  const auto batch = store.begin();
  bool any = false;
  for (const Operation& operation : operations) {
    if (store.has(ObjectKind::kOperation, operation.id)) continue;
    batch->add(ObjectKind::kOperation, encode(operation));
    any = true;
  }
  if (any) batch->commit();
}

// Everything that the remote's heads reach and this clone does not have, decoded and with whole ancestry. Received into
// a store of its own, so that nothing unverified ever stands among this clone's objects.
std::vector<Operation> receive_operations(Repository& repository, store::Remote& remote,
                                          const std::vector<Digest>& heads, Progress& progress) {
  DigestSet known;
  for (const Operation& operation : repository.operations()) known.insert(operation.id);
  if (std::ranges::all_of(heads, [&](const Digest& head) { return known.contains(head); })) return {};
  std::vector<ObjectRef> offered;
  for (const Digest& id : remote.operations()) {
    if (!known.contains(id)) offered.emplace_back(ObjectKind::kOperation, id);
  }
  const TempFolder folder;
  store::Store::create(folder.path(), repository.disk());
  store::Store incoming(folder.path(), repository.disk(), repository.pool());
  store::receive_objects(remote, incoming, offered, progress);
  incoming.reload();

  std::vector<Operation> received;
  DigestSet seen;
  for (std::vector<Digest> todo = heads; !todo.empty();) {
    const Digest id = todo.back();
    todo.pop_back();
    if (known.contains(id) || !seen.insert(id).second) continue;
    if (!incoming.has(ObjectKind::kOperation, id))
      fail(ErrorKind::kCorrupt, "the remote's history is not whole: it lacks operation {}", id.brief());
    received.push_back(decode(incoming.read(ObjectKind::kOperation, id)));
    todo.insert(todo.end(), received.back().parents.begin(), received.back().parents.end());
  }
  return fixed_order(std::move(received));
}

std::vector<Digest> wanted_manifests(Repository& repository, bool everything) {
  std::vector<Digest> wanted;
  for (const Pointer& pointer : all_pointers(repository)) wanted.push_back(pointer.digest);
  if (everything) {
    for (const Version& version : versions(repository)) wanted.push_back(version.digest);
  }
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  return wanted;
}

}  // namespace

SyncResult push_dry_run(Repository& repository, const RemoteConfig& config) {
  SyncResult result;
  const std::vector<Operation> all = repository.operations();
  std::unique_ptr<store::Remote> remote;
  try {
    remote = open_remote(repository, config, false);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    remote = std::make_unique<EmptyRemote>();  // the push would make it
  }
  const std::vector<Digest> heads = remote->heads();
  if (!knows_all(all, heads)) throw pull_first(config);
  const std::vector<Operation> lacking = beyond(all, heads);
  std::vector<ObjectRef> objects = objects_to_send(repository, *remote, content_to_send(repository, all, lacking));
  std::ranges::sort(objects);
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
  objects = store::missing_objects(*remote, objects);
  result.operations = lacking.size();
  result.objects = objects.size();
  result.bytes = store::stored_bytes(repository.store(), objects);
  return result;
}

SyncResult push(Repository& repository, const RemoteConfig& config, Progress& progress) {
  const auto remote = open_remote(repository, config, true);
  SyncResult result;
  Transfer transfer{repository.store(), *remote, progress, result};
  const std::vector<Operation> all = repository.operations();
  const std::vector<Digest> heads = heads_of(all);
  for (int tries = 0; tries < kPublishTries; ++tries) {
    const std::vector<Digest> before = remote->heads();
    if (!knows_all(all, before)) throw pull_first(config);
    const std::vector<Operation> lacking = beyond(all, before);
    send_missing(transfer, objects_to_send(repository, *remote, content_to_send(repository, all, lacking)));
    if (lacking.empty()) return result;
    seal_operations(repository.store(), lacking);
    std::vector<ObjectRef> objects;
    objects.reserve(lacking.size());
    for (const Operation& operation : lacking) objects.emplace_back(ObjectKind::kOperation, operation.id);
    const SyncResult content = result;
    send_missing(transfer, std::move(objects));
    result = content;  // operations are counted as such
    if (remote->publish_heads(before, heads)) {
      result.operations = lacking.size();
      return result;
    }
  }
  throw pull_first(config);  // someone else was faster each time
}

std::vector<Operation> remote_operations(Repository& repository, const RemoteConfig& config, Progress& progress) {
  const auto remote = open_remote(repository, config, false);
  return receive_operations(repository, *remote, remote->heads(), progress);
}

SyncResult fetch(Repository& repository, const RemoteConfig& config, const FetchOptions& options, Progress& progress) {
  const auto remote = open_remote(repository, config, false);
  if (!options.dry_run) repository.store().keep_found();
  SyncResult result;
  Transfer transfer{repository.store(), *remote, progress, result};
  const std::vector<Operation> received = receive_operations(repository, *remote, remote->heads(), progress);
  result.operations = received.size();
  const Content content = content_of(received);
  result.versions = content.versions;
  if (options.dry_run) {
    for (const Digest& manifest : wanted_manifests(repository, options.content == FetchContent::kEverything)) {
      if (!repository.store().has(ObjectKind::kManifest, manifest)) ++result.objects;
    }
    return result;
  }
  receive_blobs(transfer, content.series, true);  // before the operations: their apply reads them
  repository.merge(received);
  // Of all operations, not only the new ones: a fetch that was cut off here is made whole by the next.
  receive_blobs(transfer, content_of(in_force(repository.db(), repository.operations())).others, false);
  const std::vector<Digest> wanted = wanted_manifests(repository, options.content == FetchContent::kEverything);
  if (options.content == FetchContent::kTrees) {
    receive_trees(transfer, wanted);
  } else {
    receive_manifests(transfer, wanted);
  }
  return result;
}

}  // namespace mlx::registry
