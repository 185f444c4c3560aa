// Sets up git for mlx in one clone: the merge driver for pointers and the pre-push hook. Used by init, clone and pull.
#pragma once

#include <string>
#include <vector>

#include "store/disk.h"

namespace mlx::registry {

struct GitSetup {
  bool changed = false;
  std::vector<std::string> notes;  // what could not be set up, and what to do about it: one sentence each
};

// For the repository of mlx at `root`; does nothing outside of a git worktree. Sets merge.mlx.* in the clone's own git
// configuration and writes hooks/pre-push if there is none. With `attributes` it also adds the line to the tracked
// .gitattributes that assigns the driver to *.mlx. It never changes what others have set up, but names it in the notes.
// Idempotent.
GitSetup set_up_git(const std::string& root, bool attributes, store::Disk& disk);

}  // namespace mlx::registry
