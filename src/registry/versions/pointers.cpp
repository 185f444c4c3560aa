// Pointer files in the worktree: their places, reading, writing and finding them. pointer_text.cpp handles their text.
#include "registry/versions/pointers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "registry/operations/names.h"
#include "store/worktree/beneath.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kMaxPointerText = 64 << 10;
constexpr std::string_view kPointerSuffix = ".mlx";

// nullopt if there is no regular file, or none any more: others change the worktree too. If a file is too large for a
// pointer, returns its beginning.
std::optional<std::string> read_beginning(const std::string& path) try {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  const Fd fd = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  std::string text(std::min<std::size_t>(static_cast<std::size_t>(info.st_size), kMaxPointerText) + 1, '\0');
  text.resize(read_at(fd.get(), text.data(), text.size(), 0, path));
  return text;
} catch (const Error& error) {
  if (error.kind != ErrorKind::kNotFound) throw;
  return std::nullopt;
}

bool is_pointer_name(const std::string& name) {
  return name.size() > kPointerSuffix.size() && name.ends_with(kPointerSuffix);
}

// True if an artifact of this repository has its pointer there.
bool is_known_place(Repository& repository, const std::string& relative) {
  const std::vector<std::string> names = artifact_names(repository);
  return std::ranges::any_of(names, [&](const std::string& name) {
    return pointer_path(ArtifactKind::kDataset, name) == relative ||
           pointer_path(ArtifactKind::kModel, name) == relative;
  });
}

// True for what a power loss leaves of a pointer file, if the data of that pointer exists.
bool is_torn_off(Repository& repository, const std::string& text, const std::string& relative) {
  const bool blank = text.empty() || text.front() == '\0';
  return blank && is_folder(join_path(repository.root(), relative.substr(0, relative.size() - kPointerSuffix.size())));
}

// The text of a pointer, whole or damaged; nullopt for another file.
std::optional<std::string> pointer_text(Repository& repository, const std::string& relative, bool tolerant) {
  std::optional<std::string> text = read_beginning(join_path(repository.root(), relative));
  if (!text || looks_like_pointer(*text, relative)) return text;
  // A tolerant reader ignores damaged pointers.
  if (!tolerant && (is_torn_off(repository, *text, relative) || is_known_place(repository, relative))) return text;
  return std::nullopt;
}

Pointer decode_in_place(const std::string& text, const std::string& relative) {
  if (text.size() > kMaxPointerText) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}:1: too large for a pointer", relative),
                "restore it with `git checkout`, or remove it and run `mlx add` again");
  }
  const Pointer pointer = decode_pointer(text, relative);
  const std::string expected = pointer_path(pointer.kind, pointer.artifact);
  if (expected != relative) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}:1: is the pointer of {} '{}', which is at {}", relative, kind_name(pointer.kind),
                            pointer.artifact, expected),
                "move it there, or remove it");
  }
  return pointer;
}

// How to treat unreadable pointers: throw at the first, list them all, or skip them.
struct Reading {
  bool skip = false;
  std::vector<BrokenPointer>* broken = nullptr;
};

void collect(Repository& repository, const std::string& relative, const Reading& reading, std::vector<Pointer>& found) {
  const std::string folder = join_path(repository.root(), relative);
  std::vector<FolderEntry> entries;
  try {
    entries = list_entries(folder);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound || relative.empty()) throw;  // removed since it was listed
    return;
  }
  // A nested mlx repository keeps its own pointers.
  if (!relative.empty() && std::ranges::binary_search(entries, ".mlx", {}, &FolderEntry::name)) return;
  const auto inside = [&](const std::string& name) { return relative.empty() ? name : relative + "/" + name; };
  std::map<std::string, std::string> pointers;  // name → text
  for (const auto& [name, is_folder] : entries) {
    if (is_folder || !is_pointer_name(name)) continue;
    if (auto text = pointer_text(repository, inside(name), reading.skip)) pointers.emplace(name, std::move(*text));
  }
  for (const auto& [name, is_folder] : entries) {
    if (pointers.contains(name + std::string(kPointerSuffix))) continue;  // a dataset's data
    if (is_folder && !is_private_name(name)) collect(repository, inside(name), reading, found);
    const auto pointer = pointers.find(name);
    if (pointer == pointers.end()) continue;
    try {
      found.push_back(decode_in_place(pointer->second, inside(name)));
    } catch (const Error& error) {
      const bool broken = error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kConflict;
      if (!broken || (!reading.skip && !reading.broken)) throw;
      if (reading.broken) reading.broken->push_back({inside(name), error});
    }
  }
}

// The .gitignore beside `path`.
std::string ignore_file_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return path.substr(0, slash == std::string::npos ? 0 : slash + 1) + ".gitignore";
}

// Escapes what git would read as a pattern in a .gitignore.
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
  return (kind == ArtifactKind::kModel ? "models/" + artifact : artifact) + std::string(kPointerSuffix);
}

std::optional<Pointer> read_pointer(Repository& repository, const std::string& artifact) {
  for (const ArtifactKind kind : {ArtifactKind::kDataset, ArtifactKind::kModel}) {
    const std::string relative = pointer_path(kind, artifact);
    const std::optional<std::string> text = pointer_text(repository, relative, false);
    if (!text) continue;
    const Pointer pointer = decode_in_place(*text, relative);
    if (pointer.artifact == artifact) return pointer;  // models/clf.mlx is not the pointer of a dataset "models/clf"
  }
  return std::nullopt;
}

bool write_pointer(Repository& repository, const Pointer& pointer) {
  if (const std::string problem = artifact_name_problem(pointer.artifact); !problem.empty()) {
    fail(ErrorKind::kUsage, "'{}' cannot name an artifact: {}", pointer.artifact, problem);
  }
  const store::Beneath worktree(repository.root());
  const std::string relative = pointer_path(pointer.kind, pointer.artifact);
  const std::string text = encode_pointer(pointer);
  if (const auto before = worktree.read(relative)) {
    if (*before == text) return false;
    const Pointer other = decode_pointer(*before, relative);
    if (other.artifact != pointer.artifact || other.kind != pointer.kind) {
      throw Error(ErrorKind::kConflict,
                  fmt::format("{}: is the pointer of {} '{}'", relative, kind_name(other.kind), other.artifact),
                  "choose another name");
    }
  }
  if (const std::size_t slash = relative.rfind('/'); slash != std::string::npos)
    worktree.make_folders(relative.substr(0, slash));
  worktree.replace(relative, text);
  return true;
}

bool remove_pointer(Repository& repository, const Pointer& pointer) {
  return store::Beneath(repository.root()).remove(pointer_path(pointer.kind, pointer.artifact));
}

namespace {

std::vector<Pointer> sorted_pointers(Repository& repository, const Reading& reading) {
  std::vector<Pointer> found;
  collect(repository, "", reading, found);
  std::ranges::sort(found, {}, &Pointer::artifact);
  return found;
}

}  // namespace

std::vector<Pointer> all_pointers(Repository& repository) {
  return sorted_pointers(repository, {});
}

std::vector<Pointer> all_pointers(Repository& repository, std::vector<BrokenPointer>& broken) {
  std::vector<Pointer> found = sorted_pointers(repository, {.broken = &broken});
  std::ranges::sort(broken, {}, &BrokenPointer::path);
  return found;
}

std::vector<Pointer> readable_pointers(Repository& repository) {
  return sorted_pointers(repository, {.skip = true});
}

void ignore_in_git(Repository& repository, const std::string& path) {
  const store::Beneath worktree(repository.root());
  const std::string file = ignore_file_of(path), line = ignore_line(base_name(path));
  std::string text = worktree.read(file).value_or("");
  if (("\n" + text + "\n").find("\n" + line + "\n") != std::string::npos) return;
  if (!text.empty() && text.back() != '\n') text += '\n';
  worktree.replace(file, text + line + "\n");
}

bool unignore_in_git(Repository& repository, const std::string& path) {
  const store::Beneath worktree(repository.root());
  const std::string file = ignore_file_of(path), line = "\n" + ignore_line(base_name(path)) + "\n";
  const std::optional<std::string> before = worktree.read(file);
  if (!before) return false;
  std::string text = "\n" + *before;
  if (!text.ends_with('\n')) text += '\n';
  const std::size_t at = text.find(line);
  if (at == std::string::npos) return false;
  text.erase(at, line.size() - 1);
  if (text == "\n")
    worktree.remove(file);
  else
    worktree.replace(file, text.substr(1));
  return true;
}

}  // namespace mlx::registry
