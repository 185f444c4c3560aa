// A remote on another machine, behind the user's own ssh: a row of the table in remote.cpp.
#pragma once

#include <memory>
#include <string>

#include "store/remote/remote.h"

namespace mlx::store {

// `url` is ssh://[USER@]HOST[:PORT]/PATH or [USER@]HOST:PATH. MLX_SSH_COMMAND in the environment is run by a shell in
// place of ssh; MLX_REMOTE_MLX names the program on the other side. kIo where the host cannot be reached, kMissing
// where it has no mlx.
std::unique_ptr<Remote> open_ssh_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool);

}  // namespace mlx::store
