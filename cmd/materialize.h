// Puts the files of a version into a folder; shared by checkout and pull. In two steps, so that nothing is changed
// anywhere before all that is asked for is known to be possible.
#pragma once

#include <string>

#include "cmd/cli/cli.h"
#include "registry/versions/pointers.h"
#include "store/worktree/checkout.h"

namespace mlx::cmd {

// Whether `manifest` is of a single file that was added as an artifact of this name, and not of a folder (cmd/add.cpp
// refuses the folders that look so).
bool is_single_file(registry::Repository& repository, const Digest& manifest, const std::string& artifact);

// kConflict where the artifact's place below `root`, or a folder that holds it, is a symbolic link to a folder: nothing
// behind one is read, written or removed.
void require_own_place(const std::string& root, const std::string& artifact);

// Where the version that a pointer names was erased: says so, and is true. There is nothing to bring then.
bool say_erased(registry::Repository& repository, const registry::Pointer& pointer, Context& context);

// What must happen for `path` (absolute) to be the dataset's folder or file. What is there and in no version is
// kConflict unless `force`.
store::CheckoutPlan plan_version(registry::Repository& repository, const Digest& manifest, const std::string& artifact,
                                 const std::string& path, bool force, Context& context);
// Does it. Where the folder is the artifact's own place, it is noted what stands there now; artifact "": it is not.
store::CheckoutReport carry_out_version(registry::Repository& repository, const store::CheckoutPlan& plan,
                                        const Digest& manifest, const std::string& artifact, store::LinkMode link,
                                        Context& context);

// What `--link` says, else the setting checkout.link.
store::LinkMode link_mode(Context& context, const std::string& option = "");

// Both at once.
void materialize(registry::Repository& repository, const Digest& manifest, const std::string& artifact,
                 const std::string& path, bool force, Context& context);

}  // namespace mlx::cmd
