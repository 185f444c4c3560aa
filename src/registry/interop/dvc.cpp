// Finds and reads .dvc files, and looks their outs up in the cache. MD5s are checked just before contents are stored.
#include "registry/interop/dvc.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/md5.h"
#include "base/path.h"
#include "formats/dvc.h"

namespace mlx::registry {
namespace {

constexpr std::string_view kDvcSuffix = ".dvc";
constexpr std::uint64_t kMaxDvcFile = 256 << 10, kMaxDirFile = std::uint64_t{1} << 30;

bool is_dvc_file(const std::string& path) {
  return path.ends_with(kDvcSuffix) && base_name(path).size() > kDvcSuffix.size() && !is_folder(path);
}

std::string read_limited(const std::string& path, std::uint64_t limit) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > limit)
    fail(ErrorKind::kCorrupt, "{}: too large for a .dvc file", path);
  return std::string(as_text(read_regular_file(path, limit)));
}

void search(const std::string& folder, std::vector<std::string>& found) {
  for (const auto& [name, is_folder] : list_entries(folder)) {
    const std::string path = join_path(folder, name);
    if (is_private_name(name) || name == kDvcSuffix) continue;
    if (is_dvc_file(path)) {
      found.push_back(path);
    } else if (is_folder && !path_exists(path + std::string(kDvcSuffix))) {  // does not search the data itself
      search(path, found);
    }
  }
}

std::vector<std::string> dvc_files(const std::string& root, const std::vector<std::string>& paths) {
  std::vector<std::string> found;
  if (paths.empty()) search(root, found);
  for (const std::string& path : paths) {
    const std::string full = join_path(root, path);
    if (is_dvc_file(full) && path_exists(full)) {
      found.push_back(full);
    } else if (path_exists(full + std::string(kDvcSuffix))) {
      found.push_back(full + std::string(kDvcSuffix));
    } else if (is_folder(full)) {
      search(full, found);
    } else {
      throw Error(ErrorKind::kNotFound, fmt::format("{}: no .dvc file there", path), "check the name");
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// The DVC repository that holds `path`.
std::string dvc_root(const std::string& path) {
  for (std::string folder = parent_path(path); folder != "/"; folder = parent_path(folder))
    if (is_folder(join_path(folder, kDvcSuffix))) return folder;
  throw Error(ErrorKind::kNotFound, fmt::format("{}: not in a DVC repository", path), "it has a folder .dvc");
}

// `dir` in the section [cache] of an INI file.
std::string configured_cache(const std::string& config) {
  std::string_view text = config;
  std::string dir;
  for (bool in_cache = false; !text.empty();) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto trim = [](std::string_view part) {
      const std::size_t from = std::min(part.find_first_not_of(" \t\r"), part.size());
      part.remove_prefix(from);
      return part.substr(0, part.find_last_not_of(" \t\r") + 1);
    };
    line = trim(line);
    if (line.starts_with('[')) in_cache = line == "[cache]";
    const std::size_t equals = line.find('=');
    if (in_cache && equals != std::string_view::npos && trim(line.substr(0, equals)) == "dir")
      dir = trim(line.substr(equals + 1));
  }
  return dir;
}

std::string cache_of(const std::string& root) {
  const std::string folder = join_path(root, kDvcSuffix);
  std::string cache = join_path(folder, "cache");
  for (const char* name : {"config", "config.local"}) {  // the later one overrides
    const std::string path = join_path(folder, name);
    if (!path_exists(path)) continue;
    const std::string dir = configured_cache(read_limited(path, kMaxDvcFile));
    if (!dir.empty()) cache = join_path(folder, dir);
  }
  return cache;
}

// The path of an object, in the cache layout of DVC 3 or of DVC 2, which DVC 3 still reads; "" if neither has it.
std::string find_object(const std::string& cache, const std::string& md5, const char* suffix) {
  for (const char* layout : {"files/md5/", ""}) {
    const std::string path = fmt::format("{}/{}{}/{}{}", cache, layout, md5.substr(0, 2), md5.substr(2), suffix);
    if (path_exists(path)) return path;
  }
  return {};
}

// The MD5 of a file. With `unix_lines` as DVC 2 computed it for text files: line ends count as "\n".
std::string md5_of(const std::string& path, bool unix_lines, const Interruption& interruption) {
  const Fd fd = open_file(path, O_RDONLY);
  Md5 md5;
  Bytes block(std::size_t{1} << 20), kept;
  bool carriage = false;  // the last block ended with '\r'
  for (std::uint64_t at = 0;;) {
    const std::size_t count = read_at(fd.get(), block.data(), block.size(), at, path);
    at += count;
    interruption.check();
    if (!unix_lines) {
      md5.update({block.data(), count});
    } else {
      kept.clear();
      for (std::size_t i = 0; i < count; ++i) {
        if (carriage && block[i] != '\n') kept.push_back('\r');
        carriage = block[i] == '\r';
        if (!carriage) kept.push_back(block[i]);
      }
      if (count < block.size() && carriage) kept.push_back('\r');
      md5.update(kept);
    }
    if (count < block.size()) return md5.finish();
  }
}

void check_md5(const std::string& path, const std::string& md5, bool version2, const Interruption& interruption) {
  if (md5_of(path, false, interruption) == md5 || (version2 && md5_of(path, true, interruption) == md5)) return;
  throw Error(ErrorKind::kCorrupt, fmt::format("{}: its MD5 is not {}", path, md5),
              "the cache is damaged: remove that file and `dvc fetch` it again");
}

class Finder {
 public:
  Finder(const std::string& root, const Interruption& interruption) : root_(root), interruption_(interruption) {}

  void read(const std::string& dvc_file) {
    const formats::DvcFile file = formats::parse_dvc_file(read_limited(dvc_file, kMaxDvcFile), dvc_file);
    cache_ = cache_of(dvc_root(dvc_file));
    for (const formats::DvcOut& out : file.outs) {
      const std::string folder = absolute_path(join_path(parent_path(dvc_file), file.wdir));
      const std::string place = absolute_path(join_path(folder, out.path));
      const std::optional<std::string> artifact = relative_inside(place, root_);
      if (!artifact || artifact->empty() || out.path.find("://") != std::string::npos) {
        throw Error(ErrorKind::kUsage, fmt::format("{}: {} is outside of this repository", dvc_file, out.path),
                    "import other .dvc files one by one");
      }
      found.datasets.push_back(dataset(*artifact, out));
    }
    found.dvc_files.push_back(dvc_file);
  }

  void require_objects() const {
    if (missing_ == 0) return;
    throw Error(ErrorKind::kNotFound,
                fmt::format("{}{}: not in the DVC cache", first_missing_,
                            missing_ == 1 ? "" : fmt::format(" and {} more", missing_ - 1)),
                "`dvc fetch` brings it");
  }

  DvcDatasets found;

 private:
  ImportDataset dataset(const std::string& artifact, const formats::DvcOut& out) {
    ImportDataset made{artifact, {}};
    if (!out.folder) {
      made.files.push_back(file(artifact, base_name(artifact), out.md5, out));
      return made;
    }
    const std::string manifest = find_object(cache_, out.md5, ".dir");
    if (manifest.empty()) {
      note_missing(artifact);
      return made;
    }
    const std::string text = read_limited(manifest, kMaxDirFile);
    check_md5(manifest, out.md5, false, interruption_);
    for (const formats::DvcDirEntry& entry : formats::parse_dvc_dir(text, manifest))
      made.files.push_back(file(artifact + "/" + entry.path, entry.path, entry.md5, out));
    return made;
  }

  ImportFile file(const std::string& shown, const std::string& inside, const std::string& md5,
                  const formats::DvcOut& out) {
    ImportFile one;
    one.path = inside;
    if (out.executable && !out.folder) one.mode = store::kModeExecutable;
    one.source = find_object(cache_, md5, "");
    if (one.source.empty()) note_missing(shown);
    struct stat info {};
    if (::stat(one.source.c_str(), &info) == 0) one.size = static_cast<std::uint64_t>(info.st_size);
    one.check = [md5, version2 = out.version2, &interruption = interruption_](const std::string& source) {
      check_md5(source, md5, version2, interruption);
    };
    return one;
  }

  void note_missing(const std::string& shown) {
    if (missing_++ == 0) first_missing_ = shown;
  }

  std::string root_, cache_, first_missing_;
  const Interruption& interruption_;
  std::size_t missing_ = 0;
};

}  // namespace

DvcDatasets find_dvc_datasets(Repository& repository, const std::vector<std::string>& paths) {
  Finder finder(repository.root(), repository.interruption());
  for (const std::string& path : dvc_files(repository.root(), paths)) finder.read(path);
  finder.require_objects();
  check_import(repository, finder.found.datasets);
  return std::move(finder.found);
}

}  // namespace mlx::registry
