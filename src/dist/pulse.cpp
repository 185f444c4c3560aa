// One line a beat, written at once: "\x1emlx-rank RANK ended|alive STEP WAITS_FOR UNITS BYTES SECONDS READING WAITING
// CPU UNIT NAME".
#include "dist/pulse.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <sstream>

#include "base/process_use.h"
#include "base/text.h"

namespace mlx::dist {
namespace {

constexpr std::string_view kMark = "\x1emlx-rank ";
constexpr std::size_t kLongestName = 200;
constexpr auto kInterval = std::chrono::seconds(1);

}  // namespace

Pulse::Pulse(const Communicator& ranks, int stream) : ranks_(ranks), stream_(stream) {
  thread_ = std::jthread([this] {
    std::unique_lock lock(mutex_);
    do beat(false);
    while (!changed_.wait_for(lock, kInterval, [this] { return ends_; }));
  });
}

Pulse::~Pulse() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  beat(true);
}

std::string beat_line(const Communicator& ranks, bool ended) {
  const Activity& now = ranks.activity();
  return fmt::format("{}{} {} {} {} {} {} {:.6f} {:.6f} {:.6f} {:.6f} {} {}\n", kMark, ranks.rank(),
                     ended ? "ended" : "alive", now.step.load(), now.waits_for.load(), now.units.load(),
                     now.bytes_sent.load(), now.seconds.load(), now.reading.load(), now.waiting.load(), cpu_seconds(),
                     now.unit.load(), ranks.name());
}

void Pulse::beat(bool ended) const {
  const std::string line = beat_line(ranks_, ended);
  [[maybe_unused]] const ssize_t written = ::write(stream_, line.data(), line.size());
}

std::optional<Beat> parse_beat(std::string_view line) {
  if (!line.starts_with(kMark)) return {};
  std::istringstream words{std::string(line.substr(kMark.size()))};
  Beat out;
  std::string state;
  words >> out.rank >> state >> out.step >> out.waits_for >> out.units >> out.bytes_sent;
  words >> out.seconds >> out.reading >> out.waiting >> out.cpu >> out.unit;
  if (!words || out.rank < 0) return {};
  if (state != "alive" && state != "ended") return {};
  out.ended = state == "ended";
  words.get();
  std::getline(words, out.name);
  out.unit = printable(out.unit.substr(0, kLongestName));
  out.name = printable(out.name.substr(0, kLongestName));
  return out;
}

}  // namespace mlx::dist
