// Lines, told apart.
#include "dist/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/text.h"

namespace mlx::dist {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 16, kLongestMessage = 600;

// mpirun puts its messages between two of them.
bool is_ruler(std::string_view line) {
  constexpr std::size_t kShortest = 40;
  return line.size() >= kShortest && line.find_first_not_of('-') == std::string_view::npos;
}

// "[host:123] ...": MPI's note about a message of its own; and what it says of a signal that we have sent it.
bool is_note(std::string_view line) {
  if (line.starts_with("mpirun: Forwarding signal ")) return true;
  const std::size_t end = line.find("] ");
  const std::size_t colon = line.substr(0, end).rfind(':');
  return line.starts_with('[') && end != std::string_view::npos && colon != std::string_view::npos && colon + 1 < end &&
         line.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789,[]") == std::string_view::npos;
}

}  // namespace

void Watch::take(std::string_view bytes, Clock::time_point now) {
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1)
    take_line(std::string_view(rest_).substr(begin, end - begin), now);
  rest_.erase(0, begin);
  if (rest_.size() > kLongestLine) finish();
}

void Watch::finish() {
  if (!rest_.empty()) take_line(std::exchange(rest_, {}), Clock::time_point());
}

void Watch::take_line(std::string_view line, Clock::time_point now) {
  if (std::optional<Beat> beat = parse_beat(line)) {
    listener_.hear_beat(*beat, now);
    const int rank = beat->rank;
    heard_[rank] = {std::move(*beat), now};
  } else if (is_rank_line(line)) {
    if (const std::optional<Said> said = parse_said(line)) listener_.hear_line(said->rank, said->text);
    if (const std::optional<Stage> stage = parse_stage(line)) listener_.hear_stage(*stage);
    if (const std::optional<std::string> run = parse_run(line)) listener_.hear_run(*run);
  } else if (is_ruler(line)) {
    if (by_mpirun_) end_message();
    by_mpirun_ = !by_mpirun_;
  } else if (by_mpirun_) {
    if (const std::string_view text = trimmed(line); !text.empty() && message_.size() < kLongestMessage)
      message_ += (message_.empty() ? "" : " ") + printable(text);
  } else if (!is_note(line)) {
    listener_.hear_line(-1, line);
  }
}

// Of several messages the first counts, unless one names the rank that a signal has ended.
void Watch::end_message() {
  const std::string message = std::exchange(message_, {});
  int rank = 0, signal = 0;
  constexpr std::string_view kNoticed = "mpirun noticed that process rank ", kEnded = "exited on signal ";
  const std::size_t noticed = message.find(kNoticed), ended = message.find(kEnded);
  if (noticed != std::string::npos && ended != std::string::npos &&
      std::sscanf(message.c_str() + noticed + kNoticed.size(), "%d", &rank) == 1 &&
      std::sscanf(message.c_str() + ended + kEnded.size(), "%d", &signal) == 1) {
    died_ = fmt::format("{} was ended by signal {}", name_of(rank), signal);
  }
  constexpr std::string_view kLost = "lost communication with a remote daemon", kNode = "on node ";
  if (const std::size_t node = message.rfind(kNode);
      died_.empty() && message.find(kLost) != std::string::npos && node != std::string::npos) {
    const std::size_t name = node + kNode.size();
    died_ = "the connection to " + message.substr(name, message.find(' ', name) - name) + " is lost";
  }
  // A rank that ends with an error says it itself, and others that they lost it.
  for (const char* told : {"non-zero status", "non-zero exit code", "connection", "unexpectedly disconnected"})
    if (message.find(told) != std::string::npos) return;
  if (of_mpirun_.empty()) of_mpirun_ = message;
}

std::string Watch::name_of(int rank) const {
  const auto found = heard_.find(rank);
  return found == heard_.end() ? fmt::format("rank {}", rank) : found->second.beat.name;
}

std::string Watch::lost(Clock::time_point now) const {
  const Heard* first = nullptr;
  for (const auto& [rank, heard] : heard_)
    if (!heard.beat.ended && now - heard.when >= kSilence && (!first || heard.when < first->when)) first = &heard;
  if (!first) return "";
  const Beat& last = first->beat;
  const std::string doing = last.waits_for >= 0 ? "waited for " + name_of(last.waits_for)
                            : last.step == 0    ? std::string("read the data")
                                                : std::string("computed");
  return fmt::format("{} has said nothing for {} s; at step {} it {}", last.name, kSilence.count(), last.step, doing);
}

std::string Watch::why() const {
  return died_.empty() ? of_mpirun_ : died_;
}

}  // namespace mlx::dist
