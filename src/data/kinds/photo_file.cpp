// Files are read whole; members from the place in their shard, through a few shards that stay open.
#include "data/kinds/photo_file.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "data/content_hash.h"
#include "data/splits.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 29;
constexpr std::size_t kMostIdle = 64;  // a reader holds a chunk and a list of chunks

}  // namespace

Bytes PhotoReader::read_part(const PhotoFile& photo, std::uint64_t size) const {
  Shard shard;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(idle_, photo.stored, [](const auto& idle) { return idle.first; });
    if (found != idle_.end()) {
      shard = std::move(found->second);
      idle_.erase(found);
    }
  }
  if (!shard) shard = std::make_unique<store::BlobReader>(store_.open_blob(photo.stored));
  Bytes bytes(static_cast<std::size_t>(size));
  const std::size_t got = shard->read_at(photo.begin.value_or(0), bytes.data(), bytes.size());
  if (got != bytes.size()) fail(ErrorKind::kCorrupt, "{}: the shard ends inside of this member", photo.path);
  const std::lock_guard lock(mutex_);
  idle_.emplace_back(photo.stored, std::move(shard));
  if (idle_.size() > kMostIdle) idle_.pop_front();
  return bytes;
}

void check_photo_size(std::uint64_t size, const std::string& path) {
  if (size > kLargestFile) fail(ErrorKind::kUsage, "{}: {} are too much for a photo", path, format_bytes(size));
}

Bytes PhotoReader::read(const PhotoFile& photo) const {
  check_photo_size(photo.size, photo.path);
  return photo.begin ? read_part(photo, photo.size) : store_.read_blob(photo.stored);
}

Bytes PhotoReader::read_begin(const PhotoFile& photo, std::size_t most) const {
  const std::uint64_t size = std::min<std::uint64_t>(most, photo.size);
  if (photo.begin) return read_part(photo, size);
  Bytes begin(static_cast<std::size_t>(size));
  begin.resize(store_.open_blob(photo.stored).read_at(0, begin.data(), begin.size()));
  return begin;
}

std::uint64_t PhotoReader::content_of(const PhotoFile& photo, const Bytes* bytes) const {
  if (!photo.begin) return hash_of(photo.stored.text());
  return hash_of(Digest::of(bytes ? *bytes : read(photo)).text());
}

void want_photos(const store::Store& store, const std::vector<PhotoFile>& photos) {
  std::set<Digest> seen;
  std::vector<store::Entry> entries;
  for (const PhotoFile& photo : photos) {
    if (photo.begin && !seen.insert(photo.stored).second) continue;
    entries.push_back({photo.path, store::kModeFile, photo.begin ? 0 : photo.size, photo.stored});
  }
  store.want(entries);
}

std::string_view folder_at(std::string_view path, std::size_t begin) {
  const std::size_t slash = path.find('/', begin);
  return slash == std::string_view::npos ? "" : path.substr(begin, slash - begin);
}

std::string folders_around(const std::vector<std::string_view>& paths) {
  std::string root;
  for (;;) {
    const std::string_view first = folder_at(paths.at(0), root.size());
    if (first.empty()) return root;
    const std::string deeper = fmt::format("{}{}/", root, first);
    const bool around_all = std::ranges::all_of(paths, [&](std::string_view path) {
      return path.starts_with(deeper) && !folder_at(path, deeper.size()).empty();
    });
    if (!around_all) return root;
    root = deeper;
  }
}

bool is_hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos || path.starts_with("__MACOSX/");
}

std::string split_of_folder(std::string_view name) {
  return name.find_first_of("-_") == std::string_view::npos && name != "t10k" ? split_named(name) : "";
}

std::string as_root(std::string folder) {
  while (folder.starts_with("./")) folder.erase(0, 2);
  while (folder.ends_with('/')) folder.pop_back();
  return folder.empty() || folder == "." ? "" : folder + "/";
}

}  // namespace mlx::data
