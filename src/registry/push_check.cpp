#include "registry/push_check.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/git.h"
#include "registry/key_sync.h"
#include "registry/transfer.h"
#include "store/transfer.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;
using store::ObjectRef;

constexpr std::size_t kLargestPointer = 64 << 10;

std::vector<ObjectRef> lacking_at(Repository& repository, const RemoteConfig& config,
                                  const std::vector<ObjectRef>& objects) {
  try {
    return store::missing_objects(*open_remote(repository, config, Towards::kHere), objects);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kNotFound) return objects;
    throw Error(error.kind, error.message, fmt::format("{}; git push --no-verify goes without this check", error.hint));
  }
}

}  // namespace

std::vector<Pointer> on_no_remote(Repository& repository, const std::vector<Pointer>& pointers,
                                  const std::vector<RemoteConfig>& remotes) {
  std::vector<ObjectRef> nowhere;
  nowhere.reserve(pointers.size());
  for (const Pointer& pointer : pointers) nowhere.emplace_back(ObjectKind::kManifest, pointer.digest);
  // A push sends a manifest behind all that it names: where it is, the rest is.
  for (const RemoteConfig& remote : remotes) {
    if (!nowhere.empty()) nowhere = lacking_at(repository, remote, nowhere);
  }
  std::vector<Pointer> found;
  std::ranges::copy_if(pointers, std::back_inserter(found), [&](const Pointer& pointer) {
    return std::ranges::find(nowhere, ObjectRef(ObjectKind::kManifest, pointer.digest)) != nowhere.end();
  });
  return found;
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
                  "--hook reads from standard input what git gives to its hook");
    }
    const std::string commit = line.substr(first + 1, second - first - 1);
    if (commit.find_first_not_of('0') == std::string::npos) continue;
    for (const auto& [path, text] : git_files_in_commit(*git_root, commit, ".mlx", kLargestPointer)) {
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
