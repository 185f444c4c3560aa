// A remote in a folder (mlx-format-remote(5)): a row of the table in remote.cpp.
#pragma once

#include <memory>
#include <string>

#include "store/remote/remote.h"

namespace mlx::store {

// `url` is a path or file://PATH. kNotFound where there is no such folder, or no remote in it; with `create` both are
// made.
std::unique_ptr<Remote> open_folder_remote(const std::string& url, const RemoteOptions& options, Disk& disk,
                                           Pool& pool);

}  // namespace mlx::store
