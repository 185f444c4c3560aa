// See standard_input.h.
#include "cmd/cli/standard_input.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"

namespace mlx::cmd {

std::size_t read_some_input(void* data, std::size_t count, const Interruption& interruption) {
  constexpr int kLookForSignals = 200;  // milliseconds; a signal alone does not end poll() or read() for certain
  for (;;) {
    interruption.check();
    pollfd wait = {STDIN_FILENO, POLLIN, 0};
    const int ready = ::poll(&wait, 1, kLookForSignals);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ::read(STDIN_FILENO, data, count);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR && errno != EAGAIN) fail_errno(errno, "standard input", "read");
  }
}

std::string read_standard_input(std::size_t most, const Interruption& interruption) {
  std::string text;
  std::array<char, 65536> block{};
  for (;;) {
    const std::size_t got = read_some_input(block.data(), block.size(), interruption);
    if (got == 0) return text;
    text.append(block.data(), got);
    if (text.size() > most) fail(ErrorKind::kUsage, "standard input: more than {}", format_bytes(most));
  }
}

std::vector<std::string> lines_of_standard_input(const Interruption& interruption) {
  constexpr std::size_t kLongestList = std::size_t{1} << 30;
  const std::string text = read_standard_input(kLongestList, interruption);
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::size_t length = end - from;
    if (length > 0 && text[end - 1] == '\r') --length;
    if (length > 0) lines.push_back(text.substr(from, length));
    from = end + 1;
  }
  return lines;
}

}  // namespace mlx::cmd
