// Exports a version as Git LFS stores it: pointers in a folder, contents in the repository's store of LFS objects.
#include "registry/interop/lfs_export.h"

#include <sys/stat.h>
#include <unistd.h>

#include <unordered_set>

#include "base/error.h"
#include "base/fd.h"
#include "base/foreign_files.h"
#include "base/git.h"
#include "base/path.h"
#include "formats/lfs_pointer.h"
#include "registry/interop/lfs_import.h"
#include "store/worktree/beneath.h"

namespace mlx::registry {
namespace {

constexpr const char* kAttributesFile = ".gitattributes";
constexpr std::string_view kAttributesText =
    "* filter=lfs diff=lfs merge=lfs -text\n"
    ".gitattributes !filter !diff !merge !text\n";

// What will be written at one path: the text of a file or the target of a link.
struct Planned {
  std::string path, text;
  std::uint32_t mode = store::kModeFile;
};

std::string link_target(const std::string& path) {
  std::string target(4097, '\0');
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) fail_errno(errno, path, "read the link");
  target.resize(static_cast<std::size_t>(size));
  return target;
}

// True if the path has the planned content already, false if it does not exist.
bool stands(const Planned& planned) {
  struct stat info {};
  if (::lstat(planned.path.c_str(), &info) != 0) return false;
  const bool link = planned.mode == store::kModeLink;
  if (link ? S_ISLNK(info.st_mode) && link_target(planned.path) == planned.text
           : S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) == planned.text.size() &&
                 read_text(planned.path) == planned.text &&
                 ((info.st_mode & 0100) != 0) == (planned.mode == store::kModeExecutable)) {
    return true;
  }
  throw Error(ErrorKind::kConflict, fmt::format("{}: another file is there", planned.path), "export into a new folder");
}

// Checks that every folder between `folder` and the path is a real folder or missing: nothing is written through a
// link.
void check_folders(const std::string& folder, const std::string& inside) {
  for (std::size_t slash = inside.find('/'); slash != std::string::npos; slash = inside.find('/', slash + 1)) {
    const std::string path = join_path(folder, inside.substr(0, slash));
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
      throw Error(ErrorKind::kConflict, fmt::format("{}: is not a folder", path), "export into a new folder");
  }
}

// git itself reads this file, in any folder.
bool is_attributes(const std::string& path) {
  return base_name(path) == kAttributesFile;
}

bool has_git_part(const std::string& path) {
  return ("/" + path + "/").find("/.git/") != std::string::npos;
}

Planned plan(Repository& repository, const store::Entry& entry, const std::string& folder) {
  if (has_git_part(entry.path)) fail(ErrorKind::kRefused, "'{}' would be inside git's own folder", entry.path);
  check_folders(folder, entry.path);
  Planned planned{join_path(folder, entry.path), {}, entry.mode};
  if (entry.mode == store::kModeLink || is_attributes(entry.path)) {
    planned.text = as_text(repository.store().read_blob(entry.content));
  } else if (entry.size > 0) {  // an empty file is its own LFS pointer
    planned.text = formats::encode_lfs_pointer({.oid = entry.content, .size = entry.size, .extensions = {}});
  }
  return planned;
}

void write_planned(const Planned& planned, const store::Beneath& folder, const std::string& inside) {
  folder.make_folders(inside.substr(0, inside.find('/') == std::string::npos ? 0 : inside.rfind('/')));
  if (planned.mode == store::kModeLink)
    folder.symlink(planned.text, inside);
  else
    folder.replace(inside, planned.text, planned.mode == store::kModeExecutable ? 0777 : 0666);
}

void write_object(Repository& repository, const store::Entry& entry, const std::string& path, Progress& progress) {
  make_folders(parent_path(path));
  const store::BlobReader reader = repository.store().open_blob(entry.content);
  const std::string temporary = fmt::format("{}.{}.mlx-tmp", path, ::getpid());
  store::Disk& disk = repository.disk();
  {
    disk.remove(temporary);
    const Fd fd = disk.create(temporary);
    Bytes block(std::size_t{1} << 20);
    for (std::uint64_t at = 0; at < reader.size();) {
      const std::size_t count = reader.read_at(at, block.data(), block.size());
      disk.write(fd, {block.data(), count}, temporary);
      at += count;
      progress.advance(count);
      progress.check_interrupted();
    }
    disk.sync(fd, temporary);
  }
  disk.rename(temporary, path);
}

bool has_object(const std::string& path, std::uint64_t size) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) == size;
}

// Makes git hand the folder's files to git-lfs.
void add_attributes(const std::string& folder, bool own, std::vector<Planned>& planned, LfsExport& report) {
  const std::string path = join_path(folder, kAttributesFile);
  if (own || (path_exists(path) && read_project_text(path) != kAttributesText)) {
    report.notes.push_back(fmt::format("{} is not changed: it must set `filter=lfs diff=lfs merge=lfs -text`", path));
  } else {
    planned.push_back({path, std::string(kAttributesText), store::kModeFile});
  }
}

}  // namespace

LfsExport export_lfs(Repository& repository, const Digest& manifest, const std::string& folder, bool dry_run,
                     Progress& progress) {
  std::string existing = folder;
  while (!is_folder(existing)) existing = parent_path(existing);
  const std::optional<std::string> git_root = find_git_root(existing);
  if (!git_root)
    throw Error(ErrorKind::kNotFound, fmt::format("{}: not in a git repository", folder),
                "Git LFS needs one: run `git init`");
  const std::string lfs = git_lfs_folder(*git_root);
  const std::vector<store::Entry> entries = repository.store().entries(manifest);
  LfsExport report;
  std::vector<Planned> planned;
  bool own_attributes = false;
  std::uint64_t total = 0;
  for (const store::Entry& entry : entries) {
    planned.push_back(plan(repository, entry, folder));
    own_attributes |= entry.path == kAttributesFile;
    total += entry.size;
  }
  add_attributes(folder, own_attributes, planned, report);
  std::erase_if(planned, [&](const Planned& one) { return stands(one) && ++report.unchanged > 0; });
  report.pointers = planned.size();

  std::unordered_set<Digest, DigestHash> seen;
  progress.begin("exporting", total, "B");
  for (const store::Entry& entry : entries) {
    const std::string path = lfs_object_path(lfs, entry.content);
    if (entry.mode == store::kModeLink || entry.size == 0 || is_attributes(entry.path) ||
        has_object(path, entry.size) || !seen.insert(entry.content).second)
      continue;
    report.objects += 1;
    report.bytes += entry.size;
    if (!dry_run) write_object(repository, entry, path, progress);
  }
  progress.end();
  // Pointers last, so that their objects exist when they become visible.
  if (dry_run) return report;
  make_folders(folder);
  const store::Beneath place(folder);
  for (const Planned& one : planned) write_planned(one, place, relative_inside(one.path, folder).value());
  return report;
}

}  // namespace mlx::registry
