// Which copies stay is decided first, by the stored bytes of what they need; gc removes the rest.
#include "store/maintenance/copies.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/path.h"
#include "store/pack/usage.h"

namespace mlx::store {
namespace {

constexpr const char* kFolder = "copies";

std::string path_of(const Store& store, const Digest& manifest) {
  return join_path(join_path(store.folder(), kFolder), manifest.hex());
}

struct Copy {
  Digest manifest;
  std::string path;
  timespec used{};
  bool in_use = false;
};

bool is_in_use(const std::string& path) {
  const Fd fd = open_file(path, O_RDONLY);
  return ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

// The last used first.
std::vector<Copy> copies_of(const Store& store) {
  const std::string folder = join_path(store.folder(), kFolder);
  std::vector<Copy> out;
  if (!is_folder(folder)) return out;
  for (const std::string& name : list_folder(folder)) {
    Copy copy{Digest::parse(name), join_path(folder, name)};
    struct stat info {};
    if (::stat(copy.path.c_str(), &info) != 0) continue;
    copy.used = info.st_mtim;
    copy.in_use = is_in_use(copy.path);
    out.push_back(std::move(copy));
  }
  std::ranges::sort(out, [](const Copy& a, const Copy& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) > std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return out;
}

}  // namespace

Fd use_copy(const Store& store, Disk& disk, const Digest& manifest) {
  const std::string path = path_of(store, manifest);
  make_folders(parent_path(path));
  Fd fd = disk.open_append(path);
  ::flock(fd.get(), LOCK_SH);
  ::futimens(fd.get(), nullptr);
  return fd;
}

GcReport limit_copies(Store& store, Disk& disk, std::uint64_t limit, std::int64_t grace_seconds, Progress& progress) {
  std::uint64_t bytes = 0;
  std::vector<Digest> kept;
  std::vector<Copy> dropped;
  for (Copy& copy : copies_of(store)) {
    const Usage needs = usage(store, copy.manifest, kept);
    const std::uint64_t more = needs.stored - needs.shared;
    if (!copy.in_use && bytes + more > limit) {
      dropped.push_back(std::move(copy));
      continue;
    }
    bytes += more;
    kept.push_back(copy.manifest);
  }
  for (const Copy& copy : dropped) disk.remove(copy.path);
  // Asked for again under the lock: a copy may have been taken into use meanwhile.
  const auto roots = [&] {
    GcRoots out;
    for (const Copy& copy : copies_of(store)) out.manifests.push_back(copy.manifest);
    return out;
  };
  return collect_garbage(store, roots, {.grace_seconds = grace_seconds, .remove = true}, progress);
}

}  // namespace mlx::store
