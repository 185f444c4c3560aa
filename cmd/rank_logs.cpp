// The oldest lines are dropped once a log is twice as long as it may be, so that it is seldom moved.
#include "cmd/rank_logs.h"

#include "cmd/cli/foreign_text.h"

namespace mlx::cmd {
namespace {

// Without the escape sequences that colour a line: "\x1b[33m".
std::string without_colours(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\x1b' && at + 1 < line.size() && line[at + 1] == '[') {
      at = line.find_first_not_of("0123456789;", at + 2);
      if (at == std::string_view::npos) break;
      continue;  // after the letter that ends it
    }
    out += line[at];
  }
  return out;
}

// The last `most` bytes, from the beginning of a line.
std::string_view end_of(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  text.remove_prefix(text.size() - most);
  const std::size_t line = text.find('\n');
  return line == std::string_view::npos ? std::string_view() : text.substr(line + 1);
}

}  // namespace

void RankLogs::add(int rank, std::string_view line) {
  if (!logs_.contains(rank) && logs_.size() >= kMostRanks) return;
  Log& log = logs_[rank];
  log.text += printable(without_colours(line)) + "\n";
  if (log.text.size() <= 2 * kMost) return;
  log.text = end_of(log.text, kMost);
  log.cut = true;
}

std::map<int, std::string> RankLogs::texts() const {
  constexpr std::string_view kCut = "(what came before is not kept)\n";
  std::map<int, std::string> out;
  for (const auto& [rank, log] : logs_) {
    const bool cut = log.cut || log.text.size() > kMost;
    out[rank] = cut ? std::string(kCut) + std::string(end_of(log.text, kMost - kCut.size())) : log.text;
  }
  return out;
}

}  // namespace mlx::cmd
