// SSH as a program to run: what a URL says of a host, the command line that reaches it, and what ssh's own errors mean.
// Used by the SSH remote and by launching on other hosts. Pure functions; `ssh` itself reads the user's config, keys
// and known hosts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlx {

struct SshTarget {
  std::string user, host, port;  // user and port may be empty
  std::string path;              // on the host; relative to the login's home folder
  std::string login() const { return user.empty() ? host : user + "@" + host; }
};

// True for ssh://… and for the short form [USER@]HOST:PATH, which has a colon before any slash.
bool is_ssh_url(const std::string& url);
// kUsage for a name with characters that no host or user has, and for one that begins with '-': ssh would take it for
// an option.
SshTarget parse_ssh_url(const std::string& url);

// `ssh [-p PORT] [USER@]HOST COMMAND`. The shell there runs `command`. `program`, if not empty, is a shell's command
// line to run in place of "ssh".
std::vector<std::string> ssh_command(const SshTarget& target, const std::string& program, const std::string& command);
// One word of `command` for a path there: quoted where needed, but a leading "~/" still means the home folder.
std::string remote_word(const std::string& word);

// A program for ssh_command() that asks for nothing, and gives up on a host that does not answer.
inline constexpr const char* kSilentSsh = "ssh -o BatchMode=yes -o ConnectTimeout=10";

inline constexpr int kSshFailed = 255;  // ssh's exit code if it could not connect
// The last line that says something in what ssh, a shell or mlx wrote to stderr; without "mlx: error: ".
std::string last_line_of(std::string_view said);
// What to do about the failure that `said`, ssh's stderr, tells; nullopt for an unknown one.
std::optional<std::string> ssh_hint(const SshTarget& target, std::string_view said);

}  // namespace mlx
