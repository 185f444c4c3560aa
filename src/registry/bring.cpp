#include "registry/bring.h"

#include <algorithm>

#include "base/error.h"
#include "registry/key_sync.h"
#include "registry/pointers.h"
#include "registry/settings.h"
#include "registry/transfer.h"
#include "store/remote.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;

struct Source {
  std::unique_ptr<store::Remote> remote;
  SyncResult result;
};

Source open_source(Repository& repository) {
  const Settings settings({repository.environment(), repository.root()});
  return {open_remote(repository, pick_remote(repository.root(), settings.text("remote.default")), Towards::kHere), {}};
}

}  // namespace

bool is_lazy(Repository& repository) {
  return Settings({repository.environment(), repository.root()}).text("fetch.filter") != "none";
}

void bring(Repository& repository, const std::vector<store::Entry>& wanted, Progress& progress) {
  std::vector<Digest> absent;
  for (const store::Entry& entry : wanted) {
    if (!repository.store().has_whole_blob(entry.content)) absent.push_back(entry.content);
  }
  if (absent.empty() || !is_lazy(repository)) return;
  Source source = open_source(repository);
  Transfer transfer{repository.store(), *source.remote, progress, source.result};
  receive_blobs(transfer, absent, true);
}

void bring(Repository& repository, const Digest& manifest, Progress& progress) {
  if (!repository.store().has(ObjectKind::kManifest, manifest)) {
    if (!is_lazy(repository)) return;  // the caller says what is missing
    Source source = open_source(repository);
    Transfer transfer{repository.store(), *source.remote, progress, source.result};
    receive_trees(transfer, {manifest});
  }
  bring(repository, repository.store().entries(manifest), progress);
}

bool fetch_files_of(Repository& repository, const Digest& manifest) {
  try {
    Source source = open_source(repository);
    NoProgress quiet;
    Transfer transfer{repository.store(), *source.remote, quiet, source.result};
    receive_trees(transfer, {manifest});
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kIo) throw;
    return false;
  }
}

bool fetch_content_of(Repository& repository, const Digest& manifest, Progress& progress) {
  if (is_lazy(repository)) return true;
  if (!repository.store().has(ObjectKind::kManifest, manifest) && !fetch_files_of(repository, manifest)) return false;
  std::vector<Digest> absent;
  for (const store::Entry& entry : repository.store().entries(manifest)) {
    if (!repository.store().has_whole_blob(entry.content)) absent.push_back(entry.content);
  }
  if (absent.empty()) return true;
  try {
    Source source = open_source(repository);
    Transfer transfer{repository.store(), *source.remote, progress, source.result};
    receive_blobs(transfer, absent, true);
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kIo) throw;
    return false;
  }
}

void need_files_of(Repository& repository, const std::string& name, const Digest& manifest) {
  try {
    (void)repository.store().shards(manifest);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    const std::vector<Pointer> pointers = all_pointers(repository);
    const bool pointed = std::ranges::find(pointers, manifest, &Pointer::digest) != pointers.end();
    throw Error(ErrorKind::kNotFound, fmt::format("{}: its content is not in this repository", name),
                pointed ? "`mlx pull` fetches it" : "`mlx fetch --all` fetches the content of every version");
  }
}

bool bring_objects(Repository& repository, const std::vector<std::pair<ObjectKind, Digest>>& objects) {
  if (!is_lazy(repository)) return false;
  Source source = open_source(repository);
  NoProgress quiet;
  Transfer transfer{repository.store(), *source.remote, quiet, source.result};
  std::vector<Digest> trees, blobs;
  std::vector<store::ObjectRef> shards;
  for (const auto& [kind, id] : objects) {
    if (kind == ObjectKind::kManifest) trees.push_back(id);
    if (kind == ObjectKind::kShard) shards.emplace_back(kind, id);
    if (kind == ObjectKind::kChunk || kind == ObjectKind::kChunkList) blobs.push_back(id);
  }
  try {
    receive_trees(transfer, trees);
    receive_objects(transfer, shards);
    receive_blobs(transfer, blobs, true);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kNotFound) return false;
    throw;
  }
  return true;
}

}  // namespace mlx::registry
