// Where an SSH remote is, as URLs say it, and the command line that reaches it. Used by the SSH remote; pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mlx::store {

struct SshTarget {
  std::string user, host, port;  // user and port may be empty
  std::string path;              // on the host; relative to the folder that a login there starts in
};

// True for ssh://… and for the short form [USER@]HOST:PATH, which has a colon before any slash.
bool is_ssh_url(const std::string& url);
// kUsage for what could not be meant: a name with characters that no host or user has, and above all one that begins
// with '-' and would be taken for an option.
SshTarget parse_ssh_url(const std::string& url);

struct SshProgram {
  std::string command = "";     // a shell's command line to run in place of "ssh"
  std::string remote_mlx = "";  // the program on the other side in place of "mlx"
  bool repair = false;          // asks for `serve-store --repair`
};
// `ssh [-p PORT] [USER@]HOST 'mlx serve-store --stdio'`. The path is not in it: it is sent, so that no shell sees it.
std::vector<std::string> ssh_command(const SshTarget& target, const SshProgram& program);

}  // namespace mlx::store
