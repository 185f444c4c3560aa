// git overwrites ignored files by tracked ones, so one check is not enough. The folder's inode and git's index identify
// what was checked; a stranger cannot know either beforehand.
#include "registry/settings/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "base/fd.h"
#include "base/git.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/settings/settings.h"

namespace mlx::registry {
namespace {

std::string index_of(const std::string& git_root) {
  const std::string git = join_path(git_root, ".git");
  if (is_folder(git)) return join_path(git, "index");
  constexpr std::string_view kKey = "gitdir:";  // in a linked worktree or a submodule
  const std::string text = read_text(git);
  if (!text.starts_with(kKey)) return {};
  return join_path(join_path(git_root, trimmed(text.substr(kKey.size()))), "index");
}

std::string folder_key(const struct stat& folder) {
  return fmt::format("folder {} {}\n", folder.st_dev, folder.st_ino);
}

std::string index_key(const std::string& path) {
  struct stat index {};
  if (path.empty() || ::stat(path.c_str(), &index) != 0) return "index none\n";
  return fmt::format("index {} {} {} {}.{:09}\n", index.st_dev, index.st_ino, index.st_size, index.st_mtim.tv_sec,
                     index.st_mtim.tv_nsec);
}

std::string read_mark(const std::string& path) {
  try {
    return path_exists(path) ? read_text(path) : std::string();
  } catch (const Error&) {
    return {};
  }
}

// Best effort: without the mark the index is read again. Not synced: a torn mark matches nothing.
void write_mark(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}", path, ::getpid());
  try {
    {
      const Fd fd = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
      write_all(fd.get(), as_bytes(text), temporary);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_errno(errno, path, "replace");
  } catch (const Error& error) {
    log("{} is not kept: {}", path, error.message);
    ::unlink(temporary.c_str());
  }
}

constexpr const char* kSafe = "safe.directory";

// Under sudo, the files of the calling user count as own.
bool is_own(uid_t owner, const Environment& environment) {
  if (owner == ::geteuid()) return true;
  if (::geteuid() != 0) return false;
  const std::string caller = environment.get("SUDO_UID").value_or("");
  uid_t number = 0;
  const auto [end, error] = std::from_chars(caller.data(), caller.data() + caller.size(), number);
  return !caller.empty() && error == std::errc() && end == caller.data() + caller.size() && number == owner;
}

// Reads the user's own settings only; a setting in the folder itself does not count.
bool is_declared_safe(const std::string& root, const Environment& environment) {
  const std::string text = Settings({environment, {}}).text(kSafe);
  for (std::string_view list = text; !list.empty();) {
    const std::size_t end = std::min(list.find(':'), list.size());
    const std::string_view one = list.substr(0, end);
    if (one == "*" || (one.starts_with('/') && absolute_path(one) == root)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

class RefusingDisk final : public store::Disk {
 public:
  explicit RefusingDisk(const Error& why) : why_(why) {}  // NOLINT(bugprone-throw-keyword-missing): thrown below
  Fd create(const std::string&) override { throw Error(why_); }
  Fd open_append(const std::string&) override { throw Error(why_); }
  void write(const Fd&, ByteView, const std::string&) override { throw Error(why_); }
  void sync(const Fd&, const std::string&) override { throw Error(why_); }
  void sync_folder(const std::string&) override { throw Error(why_); }
  void rename(const std::string&, const std::string&) override { throw Error(why_); }
  void truncate(const std::string&, std::uint64_t) override { throw Error(why_); }
  void remove(const std::string&) override { throw Error(why_); }

 private:
  const Error why_;
};

}  // namespace

std::optional<Error> stranger_in(const std::string& root, const Environment& environment) {
  for (const char* name : {".mlx", "mlx.toml"}) {
    const std::string path = join_path(root, name);
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0 || is_own(found.st_uid, environment)) continue;
    if (is_declared_safe(root, environment)) return std::nullopt;
    return Error(ErrorKind::kIo,
                 fmt::format("{}: belongs to another user (uid {}), so it is only read", path, found.st_uid),
                 fmt::format("if you trust it: mlx config --global {} {}", kSafe, root));
  }
  return std::nullopt;
}

void require_no_stranger(const std::string& root, const Environment& environment) {
  if (const auto stranger = stranger_in(root, environment)) throw Error(*stranger);
}

std::unique_ptr<store::Disk> refusing_disk(const Error& why) {
  return std::make_unique<RefusingDisk>(why);
}

void require_own_folder(const std::string& root) {
  const std::string folder = join_path(root, ".mlx");
  struct stat standing {};
  if (::lstat(folder.c_str(), &standing) != 0) return;
  if (S_ISLNK(standing.st_mode)) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: is a symbolic link, and its target may belong to a stranger", folder),
                "move the folder itself there (mv), or mount it there");
  }
  const std::optional<std::string> git_root = find_git_root(root);
  const std::optional<std::string> below = git_root ? relative_inside(folder, *git_root) : std::nullopt;
  if (!below) return;
  const std::string mark = join_path(folder, "own"), known = read_mark(mark);
  const std::string own = folder_key(standing), now = own + index_key(index_of(*git_root));
  if (known == now) return;
  std::string tracked;
  try {
    tracked = git_tracked_inside(*git_root, *below);
  } catch (const Error& error) {
    // If git cannot read the repository, a folder that was this clone's own stays trusted. If another user owns the
    // repository (kRefused), everything in it belongs to that user.
    if (error.kind != ErrorKind::kRefused && !known.starts_with(own)) throw;
    log("{}: {}", mark, error.message);
    return;
  }
  if (!tracked.empty()) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: git tracks it, and a repository that comes with a project is not used",
                            join_path(*git_root, tracked)),
                fmt::format("if this clone made it: git rm -r --cached {0}, and commit; else remove {0}",
                            shell_quoted(*below)));
  }
  if (standing.st_uid == ::geteuid()) write_mark(mark, now);
}

}  // namespace mlx::registry
