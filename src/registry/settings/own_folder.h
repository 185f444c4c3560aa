// Checks that .mlx belongs to this clone: it was made here, and did not come with a project from git or from somebody
// else. A foreign .mlx would bring a stranger's metadata, keys and settings.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/environment.h"
#include "base/error.h"
#include "store/disk.h"

namespace mlx::registry {

// Throws kRefused if .mlx in `root` is a symbolic link, or if git tracks it or anything in it. No error if there is
// none. Cheap: reads git's index only if it has changed since the last check (recorded in .mlx/own,
// mlx-format-cache(5)).
void require_own_folder(const std::string& root);

// Returns the error (kIo) that keeps this process from writing below `root`: .mlx or mlx.toml there belongs to another
// user, whose remotes, settings and code would decide where our content goes. Reading is still possible. nullopt if
// both belong to this user (for root: also to the user whom sudo names), or if safe.directory of the environment or of
// the user's own settings names the folder. A user who may only read the folder gets the disk's own error instead.
std::optional<Error> stranger_in(const std::string& root, const Environment& environment);
// Throws that error. For commands that make a repository, or write to one without opening it.
void require_no_stranger(const std::string& root, const Environment& environment);
// A disk that throws this error on every change.
std::unique_ptr<store::Disk> refusing_disk(const Error& why);

}  // namespace mlx::registry
