// Walks a folder level by level. The folders of a level are listed in parallel, and the files of a large folder are
// looked at in parallel stretches.
//
// The names in a folder are sorted with a "/" behind those of folders. So the files below a folder come where their
// whole paths would sort, and nothing is sorted again when the parts are joined.
#include "store/worktree/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/foreign_files.h"
#include "base/path.h"
#include "base/progress.h"
#include "store/worktree/ignore.h"

namespace mlx::store {

namespace {

// One thread looks at a folder with up to this many files; a larger one is cut into stretches of this size.
constexpr std::size_t kStretch = 1024;

// One name in a folder. Its path is in the node's `paths`, ends in "/" for a folder, and is followed by a NUL.
struct Name {
  std::uint64_t head = 0;  // the first eight bytes of the name, big endian: decides most comparisons
  std::size_t begin = 0, length = 0;
  unsigned char type = DT_UNKNOWN;
};

struct Node {
  std::string path;  // relative: "" or "a/b/"
  std::shared_ptr<const IgnoreRules> rules;
  std::vector<char> paths;
  std::vector<WalkedFile> files;  // sorted; mode 0: the file was removed after it was listed
  bool looked_at = false;         // keys and modes of files are there
  struct Child {
    std::size_t before;  // the number of files in front of the folder
    std::string path;
    std::size_t node;
  };
  std::vector<Child> children;
};

struct CloseStream {
  void operator()(DIR* stream) const { ::closedir(stream); }
};
using Stream = std::unique_ptr<DIR, CloseStream>;

[[noreturn]] void fail_special(const std::string& path) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: neither a file, a folder nor a symbolic link", path),
              "move it away, or leave it out with a line in .mlxignore");
}

std::string full_path(const std::string& root, std::string_view relative) {
  while (relative.ends_with('/')) relative.remove_suffix(1);
  return relative.empty() ? root : join_path(root, relative);
}

// Null if the folder has gone since it was listed.
Stream open_stream(const std::string& root, const Node& node) {
  std::string path = full_path(root, node.path);
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (node.path.empty() ? 0 : O_NOFOLLOW));
  if (fd < 0 && errno == ENOENT && !node.path.empty()) return nullptr;
  if (fd < 0) fail_errno(errno, path, "open folder");
  Stream stream(::fdopendir(fd));
  if (stream) return stream;
  int error = errno;
  ::close(fd);
  fail_errno(error, path, "read folder");
}

std::optional<struct stat> status_at(int folder, const char* name, const std::string& root, std::string_view relative) {
  struct stat status {};
  if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (errno == ENOENT) return {};  // gone since
  fail_errno(errno, full_path(root, relative), "stat");
}

std::uint64_t head_of(std::string_view name) {
  std::uint64_t head = 0;
  for (std::size_t i = 0; i < 8; ++i) head = head << 8 | (i < name.size() ? static_cast<unsigned char>(name[i]) : 0);
  return head;
}

std::vector<Name> list_names(DIR* stream, const std::string& root, Node& node) {
  std::vector<Name> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (!entry) {
      if (errno) fail_errno(errno, full_path(root, node.path), "read folder");
      return names;
    }
    std::string_view text = entry->d_name;
    if (text == "." || text == ".." || is_private_name(text) || text.starts_with(kCheckoutTemporary)) continue;
    Name name{0, node.paths.size(), node.path.size() + text.size(), entry->d_type};
    node.paths.insert(node.paths.end(), node.path.begin(), node.path.end());
    node.paths.insert(node.paths.end(), text.begin(), text.end());
    node.paths.push_back('\0');
    node.paths.push_back('\0');  // room for a folder's "/"
    names.push_back(name);
  }
}

// Removes ignored names, finds the type of each, and sorts them.
void judge_names(int folder, const std::string& root, Node& node, std::vector<Name>& names) {
  auto path_of = [&](const Name& name) { return std::string_view(node.paths.data() + name.begin, name.length); };
  bool own_rules = std::any_of(names.begin(), names.end(), [&](const Name& name) {
    return path_of(name).substr(node.path.size()) == ".mlxignore";
  });
  if (own_rules) {
    auto rules = std::make_shared<IgnoreRules>();
    rules->above = node.rules;
    rules->base = node.path;
    rules->rules = parse_ignore(read_project_text(full_path(root, node.path + ".mlxignore")));
    node.rules = std::move(rules);
  }
  std::erase_if(names, [&](Name& name) {
    if (name.type == DT_UNKNOWN) {  // some file systems do not say
      auto status = status_at(folder, path_of(name).data() + node.path.size(), root, path_of(name));
      if (!status) return true;
      name.type = IFTODT(status->st_mode);
    }
    if (node.rules && is_ignored(node.rules.get(), path_of(name), name.type == DT_DIR)) return true;
    if (name.type == DT_DIR)
      node.paths[name.begin + name.length++] = '/';
    else if (name.type != DT_REG && name.type != DT_LNK)
      fail_special(full_path(root, path_of(name)));
    name.head = head_of(path_of(name).substr(node.path.size()));
    return false;
  });
  std::sort(names.begin(), names.end(),
            [&](const Name& a, const Name& b) { return a.head != b.head ? a.head < b.head : path_of(a) < path_of(b); });
}

// Fills in files [begin, end).
void look_at(int folder, const std::string& root, Node& node, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    WalkedFile& file = node.files[i];
    auto status = status_at(folder, file.path.data() + node.path.size(), root, file.path);
    file.mode = 0;
    if (!status) continue;
    if (S_ISDIR(status->st_mode)) {
      throw Error(ErrorKind::kConflict, fmt::format("{}: was replaced while it was looked at", file.path),
                  "stop what writes to the folder, then try again");
    }
    if (!S_ISREG(status->st_mode) && !S_ISLNK(status->st_mode)) fail_special(full_path(root, file.path));
    file.mode = mode_of(*status);
    file.key = stat_key(*status);
  }
}

void look_into(const std::string& root, Node& node) {
  Stream stream = open_stream(root, node);
  if (!stream) return;
  std::vector<Name> names = list_names(stream.get(), root, node);
  int folder = ::dirfd(stream.get());
  judge_names(folder, root, node, names);
  node.files.reserve(names.size());
  for (const Name& name : names) {
    std::string_view path(node.paths.data() + name.begin, name.length);
    if (name.type == DT_DIR)
      node.children.push_back({node.files.size(), std::string(path), 0});
    else
      node.files.push_back({path, kModeFile, {}});
  }
  node.looked_at = node.files.size() <= kStretch;
  if (node.looked_at) look_at(folder, root, node, 0, node.files.size());
}

// A large folder's files, by all threads.
void look_at_large(const std::string& root, Node& node, Pool& pool, const Interruption& interruption) {
  Stream stream = open_stream(root, node);
  if (!stream) {
    node.files.clear();
    return;
  }
  std::size_t stretches = (node.files.size() + kStretch - 1) / kStretch;
  pool.run(static_cast<std::int64_t>(stretches), [&](std::int64_t i) {
    interruption.check();
    std::size_t begin = static_cast<std::size_t>(i) * kStretch;
    look_at(::dirfd(stream.get()), root, node, begin, std::min(begin + kStretch, node.files.size()));
  });
}

std::vector<Node> look_below(const std::string& root, Pool& pool, const Interruption& interruption) {
  std::vector<Node> nodes(1);
  for (std::size_t done = 0; done < nodes.size();) {
    std::size_t end = nodes.size();
    pool.run(static_cast<std::int64_t>(end - done), [&](std::int64_t i) {
      interruption.check();
      look_into(root, nodes[done + static_cast<std::size_t>(i)]);
    });
    for (std::size_t i = done; i < end; ++i) {
      if (!nodes[i].looked_at) look_at_large(root, nodes[i], pool, interruption);
      for (std::size_t n = 0; n < nodes[i].children.size(); ++n) {
        Node below;
        below.path = std::move(nodes[i].children[n].path);
        below.rules = nodes[i].rules;
        nodes[i].children[n].node = nodes.size();
        nodes.push_back(std::move(below));
      }
    }
    done = end;
  }
  return nodes;
}

// The files below nodes[at], in order.
void gather(std::vector<Node>& nodes, std::size_t at, Walk& walk) {
  Node& node = nodes[at];
  std::size_t done = 0;
  auto take_until = [&](std::size_t end) {
    for (; done < end; ++done) {
      if (node.files[done].mode != 0) walk.files.push_back(node.files[done]);
    }
  };
  for (const Node::Child& child : node.children) {
    take_until(std::min(child.before, node.files.size()));
    gather(nodes, child.node, walk);
  }
  take_until(node.files.size());
  walk.paths.push_back(std::move(node.paths));
}

std::int64_t nanos(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

StatKey stat_key(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::uint64_t>(status.st_size), nanos(status.st_mtim), nanos(status.st_ctim)};
}

std::optional<struct stat> stat_link(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT || errno == ENOTDIR) return {};
  fail_errno(errno, path, "stat");
}

std::uint32_t mode_of(const struct stat& status) {
  if (S_ISLNK(status.st_mode)) return kModeLink;
  return (status.st_mode & S_IXUSR) != 0 ? kModeExecutable : kModeFile;
}

std::string Walk::disk_path(const std::string& folder, std::string_view path) const {
  return single ? folder : join_path(folder, path);
}

Walk walk(const std::string& folder, Pool& pool, const Interruption& interruption) {
  Walk result;
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    auto link = stat_link(folder);
    if (!link) fail(ErrorKind::kNotFound, "{}: no such file or folder", folder);
    status = *link;
  }
  if (!S_ISDIR(status.st_mode)) {
    auto link = stat_link(folder);
    if (!link || (!S_ISREG(link->st_mode) && !S_ISLNK(link->st_mode))) fail_special(folder);
    result.single = true;
    std::string name = base_name(folder);
    result.paths.emplace_back(name.begin(), name.end());
    result.files.push_back({{result.paths[0].data(), name.size()}, mode_of(*link), stat_key(*link)});
    return result;
  }
  std::vector<Node> nodes = look_below(folder, pool, interruption);
  std::size_t count = 0;
  for (const Node& node : nodes) count += node.files.size();
  result.files.reserve(count);
  gather(nodes, 0, result);
  return result;
}

}  // namespace mlx::store
