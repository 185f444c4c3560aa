// Pointer files in the worktree: where they stand, reading, writing and finding them. Their text is pointer_text.cpp's.
#include "registry/pointers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "registry/names.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kMaxPointer = 64 << 10;
constexpr std::string_view kSuffix = ".mlx";

std::string read_pointer_text(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) > kMaxPointer) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}:1: too large for a pointer", path),
                "restore it with `git checkout`, or remove it and run `mlx add` again");
  }
  return read_text(path);
}

bool is_pointer_name(const std::string& name) {
  return name.size() > kSuffix.size() && name.ends_with(kSuffix);
}

Pointer read_in_place(Repository& repository, const std::string& relative) {
  const Pointer pointer = decode_pointer(read_pointer_text(join_path(repository.root(), relative)), relative);
  const std::string expected = pointer_path(pointer.kind, pointer.artifact);
  if (expected != relative) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}:1: is the pointer of {} '{}', which stands at {}", relative, kind_name(pointer.kind),
                            pointer.artifact, expected),
                "move it there, or remove it");
  }
  return pointer;
}

// nullopt where it is gone since its folder was listed: others work in the worktree too.
std::optional<Pointer> read_if_there(Repository& repository, const std::string& relative) {
  try {
    return read_in_place(repository, relative);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return std::nullopt;
  }
}

void collect(Repository& repository, const std::string& relative, bool tolerant, std::vector<Pointer>& found) {
  const std::string folder = join_path(repository.root(), relative);
  std::vector<FolderEntry> entries;
  try {
    entries = list_entries(folder);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound || relative.empty()) throw;  // gone since it was seen
    return;
  }
  const auto holds = [&](const std::string& name) {
    return std::ranges::binary_search(entries, name, {}, &FolderEntry::name);
  };
  // A repository inside this one keeps its own pointers.
  if (!relative.empty() && holds(".mlx")) return;
  for (const auto& [name, is_folder] : entries) {
    const std::string inside = relative.empty() ? name : relative + "/" + name;
    if (is_pointer_name(name) && !is_folder) {
      try {
        if (const std::optional<Pointer> pointer = read_if_there(repository, inside)) found.push_back(*pointer);
      } catch (const Error& error) {
        if (!tolerant || (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kConflict)) throw;
      }
    } else if (is_folder && !is_private_name(name) && !holds(name + std::string(kSuffix))) {
      collect(repository, inside, tolerant, found);
    }
  }
}

// As a .gitignore wants it: what git would read as a pattern is escaped.
std::string ignore_line(const std::string& name) {
  std::string line = "/";
  for (const char c : name) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') line += '\\';
    line += c;
  }
  if (line.back() == ' ') line.insert(line.size() - 1, 1, '\\');
  return line;
}

}  // namespace

std::string pointer_path(ArtifactKind kind, const std::string& artifact) {
  return (kind == ArtifactKind::kModel ? "models/" + artifact : artifact) + std::string(kSuffix);
}

std::optional<Pointer> read_pointer(Repository& repository, const std::string& artifact) {
  for (const ArtifactKind kind : {ArtifactKind::kDataset, ArtifactKind::kModel}) {
    const std::string relative = pointer_path(kind, artifact);
    const std::string path = join_path(repository.root(), relative);
    if (!path_exists(path) || is_real_folder(path)) continue;
    const Pointer pointer = read_in_place(repository, relative);
    if (pointer.artifact == artifact) return pointer;  // models/clf.mlx is no pointer of a dataset "models/clf"
  }
  return std::nullopt;
}

bool write_pointer(Repository& repository, const Pointer& pointer) {
  if (const std::string problem = artifact_name_problem(pointer.artifact); !problem.empty()) {
    fail(ErrorKind::kUsage, "'{}' can not name an artifact: {}", pointer.artifact, problem);
  }
  const std::string relative = pointer_path(pointer.kind, pointer.artifact),
                    path = join_path(repository.root(), relative);
  const std::string text = encode_pointer(pointer);
  if (path_exists(path)) {
    const std::string before = read_pointer_text(path);
    if (before == text) return false;
    const Pointer other = decode_pointer(before, relative);
    if (other.artifact != pointer.artifact || other.kind != pointer.kind) {
      throw Error(ErrorKind::kConflict,
                  fmt::format("{}: is the pointer of {} '{}'", relative, kind_name(other.kind), other.artifact),
                  "choose another name");
    }
  }
  make_folders(parent_path(path));
  write_file_atomically(path, text);
  return true;
}

bool remove_pointer(Repository& repository, const Pointer& pointer) {
  const std::string path = join_path(repository.root(), pointer_path(pointer.kind, pointer.artifact));
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  fail_errno(errno, path, "remove");
}

namespace {

std::vector<Pointer> sorted_pointers(Repository& repository, bool tolerant) {
  std::vector<Pointer> found;
  collect(repository, "", tolerant, found);
  std::ranges::sort(found, {}, &Pointer::artifact);
  return found;
}

}  // namespace

std::vector<Pointer> all_pointers(Repository& repository) {
  return sorted_pointers(repository, false);
}

std::vector<Pointer> readable_pointers(Repository& repository) {
  return sorted_pointers(repository, true);
}

void ignore_in_git(Repository& repository, const std::string& path) {
  const std::string full = join_path(repository.root(), path), file = join_path(parent_path(full), ".gitignore");
  const std::string line = ignore_line(base_name(full));
  std::string text = path_exists(file) ? read_text(file) : std::string();
  if (("\n" + text + "\n").find("\n" + line + "\n") != std::string::npos) return;
  if (!text.empty() && text.back() != '\n') text += '\n';
  write_file_atomically(file, text + line + "\n");
}

bool unignore_in_git(Repository& repository, const std::string& path) {
  const std::string full = join_path(repository.root(), path), file = join_path(parent_path(full), ".gitignore");
  if (!path_exists(file)) return false;
  const std::string line = "\n" + ignore_line(base_name(full)) + "\n";
  std::string text = "\n" + read_text(file);
  if (!text.ends_with('\n')) text += '\n';
  const std::size_t at = text.find(line);
  if (at == std::string::npos) return false;
  text.erase(at, line.size() - 1);
  if (text == "\n") {
    if (::unlink(file.c_str()) != 0) fail_errno(errno, file, "remove");
  } else {
    write_file_atomically(file, text.substr(1));
  }
  return true;
}

}  // namespace mlx::registry
