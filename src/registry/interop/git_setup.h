// What git needs to know of mlx in one clone: the merge driver for pointers and the pre-push hook. Used by init, clone
// and pull.
#pragma once

#include <string>
#include <vector>

#include "store/disk.h"

namespace mlx::registry {

struct GitSetup {
  bool changed = false;
  std::vector<std::string> notes;  // what could not be set up and what to do about it, a sentence each
};

// For the repository of mlx at `root`; nothing where it is in no git worktree. Sets merge.mlx.* in the clone's own git
// configuration, writes hooks/pre-push where there is none, and with `attributes` the line that ties *.mlx to the
// driver in the tracked .gitattributes. What others have set up is left alone and named in the notes. Idempotent.
GitSetup set_up_git(const std::string& root, bool attributes, store::Disk& disk);

}  // namespace mlx::registry
