// A remote on another machine, behind the user's own ssh: a row of the table in remote.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/ssh.h"
#include "store/remote/remote.h"

namespace mlx::store {

struct SshProgram {
  std::string command = "";     // a shell's command line to run in place of "ssh"
  std::string remote_mlx = "";  // the program on the other side in place of "mlx"
  bool repair = false;          // asks for `serve-store --repair`
};
// `ssh [-p PORT] [USER@]HOST 'mlx serve-store --stdio'`. The path is not in it: it is sent, so that no shell sees it.
std::vector<std::string> serve_store_command(const SshTarget& target, const SshProgram& program);

// `url` is ssh://[USER@]HOST[:PORT]/PATH or [USER@]HOST:PATH. A shell runs the environment's MLX_SSH_COMMAND in place
// of ssh; MLX_REMOTE_MLX names the program on the other side. kIo if the host cannot be reached, kMissing if it has no
// mlx.
std::unique_ptr<Remote> open_ssh_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool);

}  // namespace mlx::store
