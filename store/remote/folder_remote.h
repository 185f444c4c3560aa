// A remote in a folder (mlx-format-remote(5)): a row of the table in remote.cpp.
#pragma once

#include <memory>
#include <string>

#include "store/remote/remote.h"

namespace mlx::store {

// `url` is a path or file://PATH. kNotFound if there is no such folder, or no remote in it; with `create` both are
// made.
std::unique_ptr<Remote> open_folder_remote(const std::string& url, const RemoteOptions& options, Disk& disk,
                                           Pool& pool);

// The store that the remote is, so that gc can work on it; nullptr for a remote of another kind.
Store* local_store(Remote& remote);

}  // namespace mlx::store
