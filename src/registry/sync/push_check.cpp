#include "registry/sync/push_check.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/git.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/transfer.h"
#include "registry/sync/unpublished.h"
#include "store/remote/transfer.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;
using store::ObjectRef;

constexpr std::size_t kLargestPointer = 64 << 10;

// True if the remote has every part of the version; false if this clone cannot tell.
bool has_all(Repository& repository, store::Remote& remote, const Digest& manifest) {
  std::vector<ObjectRef> parts;
  try {
    repository.store().visit_reachable_manifest(
        manifest, [&](ObjectKind kind, const Digest& id) { parts.emplace_back(kind, id); });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return false;
  }
  return store::missing_objects(remote, parts).empty();
}

// A push sends a manifest after everything that it names. So if the remote has the manifest it has the rest, unless it
// has lost packs since.
std::vector<ObjectRef> lacking_at(Repository& repository, const RemoteConfig& config,
                                  const std::vector<ObjectRef>& versions, PushCheck& check) {
  try {
    const auto remote = open_remote(repository, config, Direction::kFetch);
    const bool lost = !remote->look_for_lost().empty();
    if (const std::size_t count = lost_operations(repository, *remote, remote->heads()).size(); count > 0) {
      check.broken.push_back({config.name, count});
      return versions;
    }
    std::vector<ObjectRef> lacking = store::missing_objects(*remote, versions);
    if (!lost) return lacking;
    std::vector<ObjectRef> found;
    std::ranges::copy_if(versions, std::back_inserter(found), [&](const ObjectRef& version) {
      return std::ranges::find(lacking, version) != lacking.end() || !has_all(repository, *remote, version.second);
    });
    return found;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kNotFound) return versions;
    throw Error(error.kind, error.message, fmt::format("{}; git push --no-verify skips this check", error.hint));
  }
}

}  // namespace

PushCheck on_no_remote(Repository& repository, const std::vector<Pointer>& pointers,
                       const std::vector<RemoteConfig>& remotes) {
  PushCheck check;
  std::vector<ObjectRef> nowhere;
  nowhere.reserve(pointers.size());
  for (const Pointer& pointer : pointers) nowhere.emplace_back(ObjectKind::kManifest, pointer.digest);
  for (const RemoteConfig& remote : remotes) {
    if (nowhere.empty()) break;
    try {
      nowhere = lacking_at(repository, remote, nowhere, check);
      ++check.answered;
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kInterrupted) throw;
      check.silent.push_back({remote.name, error});
    }
  }
  std::ranges::copy_if(pointers, std::back_inserter(check.lacking), [&](const Pointer& pointer) {
    return std::ranges::find(nowhere, ObjectRef(ObjectKind::kManifest, pointer.digest)) != nowhere.end();
  });
  return check;
}

std::vector<Pointer> pointers_in_push(const std::string& root, const std::string& lines) {
  const std::optional<std::string> git_root = find_git_root(root);
  if (!git_root) fail(ErrorKind::kNotFound, "{}: not in a git repository", root);
  std::map<Digest, Pointer> found;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      throw Error(ErrorKind::kUsage, fmt::format("'{}': not a line of git's pre-push hook", line.substr(0, 80)),
                  "--hook reads the pre-push hook's standard input");
    }
    const std::string commit = line.substr(first + 1, second - first - 1);
    if (commit.find_first_not_of('0') == std::string::npos) continue;
    for (const auto& [path, text] : git_files_in_commit(*git_root, commit, ".mlx", kLargestPointer)) {
      if (!looks_like_pointer(text, path)) continue;
      const Pointer pointer = decode_pointer(text, path);
      found.emplace(pointer.digest, pointer);
    }
  }
  std::vector<Pointer> pointers;
  pointers.reserve(found.size());
  for (const auto& [digest, pointer] : found) pointers.push_back(pointer);
  std::ranges::sort(pointers, {}, &Pointer::artifact);
  return pointers;
}

}  // namespace mlx::registry
