#include "registry/interop/git_setup.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/git.h"
#include "base/path.h"
#include "base/text.h"
#include "store/worktree/beneath.h"

namespace mlx::registry {
namespace {

constexpr const char* kDriverName = "versions of data and models (mlx)";
// %A: ours, replaced by the result; %O: the common ancestor; %B: theirs; %P: the path in the worktree.
constexpr const char* kDriver = "mlx merge-file --path %P %A %O %B";
constexpr std::string_view kMergeAttribute = "*.mlx merge=mlx";
constexpr std::string_view kHookMark = "push --check --hook";

// git runs hooks in the root of the worktree; the mlx repository may be below it.
std::string hook_command(const std::string& git_root, const std::string& root) {
  const std::string below = relative_inside(root, git_root).value_or("");
  return fmt::format("mlx {}{}", below.empty() ? "" : fmt::format("-C {} ", shell_quoted(below)), kHookMark);
}

std::string hook_text(const std::string& command) {
  return fmt::format(
      "#!/bin/sh\n"
      "# Refuses to push pointers whose data is on no remote of mlx. Once without it: git push --no-verify\n"
      "command -v mlx >/dev/null 2>&1 || {{\n"
      "  echo 'mlx is not in PATH: cannot tell whether the data of this push is on a remote' >&2\n"
      "  echo 'hint: add the folder of mlx to PATH, or push once without this check: git push --no-verify' >&2\n"
      "  exit 2\n"
      "}}\n"
      "exec {}\n",
      command);
}

void set_driver(const std::string& git_root, GitSetup& setup) {
  for (const auto& [key, value] : {std::pair("merge.mlx.name", kDriverName), std::pair("merge.mlx.driver", kDriver)}) {
    if (git_config_text(git_root, key) == value) continue;
    git_set_config(git_root, key, value);
    setup.changed = true;
  }
}

constexpr std::size_t kMaxHook = std::size_t{16} << 20;

void write_hook(const std::string& git_root, const std::string& command, store::Disk& disk, GitSetup& setup) {
  const std::string folder = git_hooks_folder(git_root), path = join_path(folder, "pre-push");
  if (path_exists(path)) {
    if (as_text(read_regular_file(path, kMaxHook)).find(kHookMark) == std::string::npos) {
      setup.notes.push_back(
          fmt::format("{} exists already: add '{}' to it, and pushes without their data are refused", path, command));
    }
    return;
  }
  // A folder that several repositories share (core.hooksPath) is not ours to fill. Without that setting the folder
  // belongs to this repository, even if a submodule or a linked worktree keeps it elsewhere.
  const bool own_hooks = git_config_text(git_root, "core.hooksPath").empty();
  if (!own_hooks && !relative_inside(folder, git_root)) {
    setup.notes.push_back(
        fmt::format("{} is outside of this repository: add '{}' to its pre-push hook, so that pushes without their "
                    "data are refused",
                    folder, kHookMark));
    return;
  }
  disk.step(path);
  if (own_hooks) make_folders(folder);
  // git may track the folder that core.hooksPath names in the worktree; it never tracks the repository's own.
  const store::Beneath below(own_hooks ? folder : git_root);
  const std::string inside = own_hooks ? "" : *relative_inside(folder, git_root);
  try {
    below.make_folders(inside);
    below.replace(join_path(inside, "pre-push"), hook_text(command), 0777);
    setup.changed = true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kConflict) throw;
    setup.notes.push_back(fmt::format("the hook that refuses pushes without their data: {}", error.message));
  }
}

void add_attributes(const std::string& root, GitSetup& setup) {
  const store::Beneath worktree(root);
  std::string text = worktree.read(".gitattributes").value_or("");
  if (("\n" + text + "\n").find("\n" + std::string(kMergeAttribute) + "\n") != std::string::npos) return;
  if (!text.empty() && text.back() != '\n') text += '\n';
  worktree.replace(".gitattributes", text + std::string(kMergeAttribute) + "\n");
  setup.changed = true;
}

}  // namespace

GitSetup set_up_git(const std::string& root, bool attributes, store::Disk& disk) {
  GitSetup setup;
  const std::optional<std::string> git_root = find_git_root(root);
  if (!git_root) return setup;
  set_driver(*git_root, setup);
  write_hook(*git_root, hook_command(*git_root, absolute_path(root)), disk, setup);
  if (attributes) add_attributes(root, setup);
  return setup;
}

}  // namespace mlx::registry
