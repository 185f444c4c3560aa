// The daemon's sockets, looked up in the system's table of connections once a second.
#include "dist/lifeline.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "base/path.h"

namespace mlx::dist {
namespace {

constexpr int kOutOfReach = 7;  // exit code: I/O failed
// After 0.2 s at first, and then after twice as long each time: the sixth is sent after 12.6 s.
constexpr long kRepeats = 6;

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The inodes of a process's sockets.
std::vector<std::string> sockets_of(pid_t process) {
  constexpr std::string_view kSocket = "socket:[";
  const std::string folder = fmt::format("/proc/{}/fd", process);
  std::vector<std::string> out;
  for (const std::string& name : list_folder(folder)) {
    std::array<char, 64> target{};
    const ssize_t size = ::readlink(join_path(folder, name).c_str(), target.data(), target.size());
    const std::string_view text(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    if (text.starts_with(kSocket) && text.ends_with(']'))
      out.emplace_back(text.substr(kSocket.size(), text.size() - kSocket.size() - 1));
  }
  return out;
}

bool is_cut_off(pid_t daemon) {
  try {
    const std::vector<std::string> sockets = sockets_of(daemon);
    return std::ranges::any_of(std::array{"/proc/net/tcp", "/proc/net/tcp6"},
                               [&](const char* table) { return sends_in_vain(text_of(table), sockets); });
  } catch (const Error&) {
    return false;  // the daemon has just ended
  }
}

}  // namespace

Lifeline::Lifeline() {
  const pid_t parent = ::getppid();
  if (text_of(fmt::format("/proc/{}/comm", parent)) != "orted\n") return;
  thread_ = std::jthread([this, parent] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return ends_; })) {
      if (!is_cut_off(parent)) continue;
      ::kill(parent, SIGKILL);  // it could tell the launcher nothing
      ::_exit(kOutOfReach);
    }
  });
}

Lifeline::~Lifeline() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
}

bool sends_in_vain(std::string_view table, const std::vector<std::string>& sockets) {
  std::istringstream lines{std::string(table)};
  std::string line;
  std::getline(lines, line);  // names of columns
  while (std::getline(lines, line)) {
    // number, local, remote, state, queues, timer, repeats (hexadecimal), user, timeout, inode
    std::istringstream words(line);
    const std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
    constexpr std::size_t kState = 3, kRepeated = 6, kInode = 9;
    if (columns.size() <= kInode || columns[kState] != "01") continue;
    if (std::strtol(columns[kRepeated].c_str(), nullptr, 16) < kRepeats) continue;
    if (std::ranges::find(sockets, columns[kInode]) != sockets.end()) return true;
  }
  return false;
}

}  // namespace mlx::dist
