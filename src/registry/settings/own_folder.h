// That .mlx is this clone's own: made here, not brought along by a project that git or somebody else handed over, with
// metadata, keys and settings of a stranger's choice.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/environment.h"
#include "base/error.h"
#include "store/disk.h"

namespace mlx::registry {

// kRefused where .mlx in `root` is a symbolic link, or where git tracks it or anything in it. Fine where there is none
// yet. Cheap: git's index is read when it has changed since the last time (.mlx/own remembers that,
// mlx-format-cache(5)).
void require_own_folder(const std::string& root);

// The error that keeps this process from writing below `root` (kIo, which all that only reads lives with): .mlx or
// mlx.toml there is another user's, whose remotes, settings and code would decide where content of ours goes. nullopt
// where both are this user's (root: or those of whom sudo names), or safe.directory of the environment or of the user's
// own settings names the folder. Whoever may only read it is told so by the disk.
std::optional<Error> stranger_in(const std::string& root, const Environment& environment);
// Throws it: for what makes a repository, or writes to one without opening it.
void require_no_stranger(const std::string& root, const Environment& environment);
// A disk on which every change is that error.
std::unique_ptr<store::Disk> refusing_disk(const Error& why);

}  // namespace mlx::registry
