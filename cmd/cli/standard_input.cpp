// See standard_input.h.
#include "cmd/cli/standard_input.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/progress.h"

namespace mlx::cmd {

std::string read_standard_input(std::size_t most) {
  std::string text;
  std::array<char, 65536> block{};
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
    if (got < 0 && errno == EINTR) {
      check_interrupted();
      continue;
    }
    if (got < 0) fail(ErrorKind::kIo, "standard input: {}", std::generic_category().message(errno));
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
    if (text.size() > most) fail(ErrorKind::kUsage, "standard input: more than {}", format_bytes(most));
  }
}

std::vector<std::string> lines_of_standard_input() {
  constexpr std::size_t kLongestList = std::size_t{1} << 30;
  const std::string text = read_standard_input(kLongestList);
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
