// Loops of a fifth of a second.
#include "dist/mutual_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "dist/collectives.h"
#include "dist/pace.h"
#include "dist/pulse.h"

namespace mlx::dist {
namespace {

using Clock = Watch::Clock;

constexpr std::string_view kLostMark = "\x1emlx-lost";
// Of several ranks that miss the first one, the second says so. What has started them then ends all, but for that it
// may take a while.
constexpr std::chrono::seconds kFirstSays{2};
constexpr std::chrono::milliseconds kTurn{200};
constexpr std::chrono::seconds kBeat{1};
constexpr std::chrono::seconds kHandshake{10};
constexpr std::size_t kMostGuests = 64;
// A process that itself was stopped for so long, as with its whole job, cannot tell who else was.
constexpr std::chrono::seconds kStopped{3};

struct Deaf final : RanksListener {
  void hear_beat(const Beat&, Clock::time_point) override {}
  void hear_line(int, std::string_view) override {}
  void hear_stage(const Stage&) override {}
  void hear_run(const std::string&) override {}
};

// Who was heard when.
class Ears {
 public:
  void hear(const std::string& line) {
    const std::optional<Beat> beat = parse_beat(line);
    if (!beat) return;
    watch_.take(line, Clock::now());
    last_[beat->rank] = line;
  }
  // The rank that is lost; "" if none is. Called every turn.
  std::string lost() {
    const auto now = Clock::now();
    if (now - std::exchange(turn_, now) > kStopped)
      for (const auto& [rank, line] : last_) watch_.take(line, now);
    return watch_.lost(now);
  }

 private:
  Deaf deaf_;
  Watch watch_{deaf_};
  std::map<int, std::string> last_;
  Clock::time_point turn_ = Clock::now();
};

class Metronome {
 public:
  bool is_due() {
    const auto now = Clock::now();
    if (now < next_) return false;
    next_ = now + kBeat;
    return true;
  }

 private:
  Clock::time_point next_ = Clock::now();
};

void wait_for_any(const std::vector<int>& sockets) {
  std::vector<pollfd> all;
  all.reserve(sockets.size());
  for (const int socket : sockets) all.push_back({socket, POLLIN, 0});
  ::poll(all.data(), all.size(), static_cast<int>(kTurn.count()));
}

}  // namespace

MutualWatch::MutualWatch(Communicator& ranks, Hears hears) : ranks_(ranks), hears_(std::move(hears)) {
  Bytes point;
  std::string problem;
  if (ranks.rank() == 0) {
    try {
      meeting_.emplace(host_of(ranks.name()));
      point = encode(meeting_->point());
    } catch (const Error& error) {
      problem = error.message;
    }
  }
  broadcast(ranks, 0, point);
  if (point.empty()) {
    if (!problem.empty()) hears_.unwatched(problem);
    return;
  }
  thread_ = std::jthread([this, point = decode_meeting_point(point)] {
    if (meeting_)
      watch_all(*meeting_);
    else
      watch_first(point);
  });
}

MutualWatch::~MutualWatch() {
  ends_ = true;
}

void MutualWatch::watch_all(const Meeting& meeting) {
  std::vector<Meeting::Guest> guests;
  std::map<int, SideLine> lines;
  Ears ears;
  Metronome metronome;
  const auto tell = [&](const std::string& line) {
    for (auto& [rank, to] : lines) to.send(line);
  };
  while (!ends_) {
    std::vector<int> sockets;
    if (guests.size() < kMostGuests) sockets.push_back(meeting.socket());
    for (const Meeting::Guest& guest : guests) sockets.push_back(guest.line.socket());
    for (const auto& [rank, line] : lines)
      if (line.is_open()) sockets.push_back(line.socket());
    wait_for_any(sockets);
    while (guests.size() < kMostGuests) {
      std::optional<Meeting::Guest> guest = meeting.accept();
      if (!guest) break;
      guests.push_back(std::move(*guest));
    }
    for (Meeting::Guest& guest : guests)
      if (const std::optional<int> rank = meeting.welcome(guest, ranks_.ranks()))
        lines.insert_or_assign(*rank, std::exchange(guest.line, SideLine(Fd())));
    std::erase_if(guests, [](const Meeting::Guest& guest) {
      return !guest.line.is_open() || Clock::now() - guest.since > kHandshake;
    });
    for (auto& [rank, line] : lines) {
      line.receive();
      while (const std::optional<std::string> said = line.next()) ears.hear(*said);
    }
    if (metronome.is_due()) tell(beat_line(ranks_, false));
    if (const std::string lost = ears.lost(); !lost.empty()) {
      hears_.lost(lost);
      tell(std::string(kLostMark) + "\n");
      std::this_thread::sleep_for(kTurn);  // or others would say that they have lost this one
      return hears_.end();
    }
  }
  tell(beat_line(ranks_, true));
}

void MutualWatch::watch_first(const MeetingPoint& point) {
  std::optional<SideLine> line = reach(point, ranks_.rank(), host_of(ranks_.name()), [this] { return ends_.load(); });
  if (!line) {
    if (!ends_) {
      hears_.unwatched(fmt::format("{} cannot reach rank 0 on {} by TCP, port {} of {}", ranks_.name(), point.host,
                                   point.port, fmt::join(point.addresses, ", ")));
    }
    return;
  }
  Ears ears;
  Metronome metronome;
  while (!ends_) {
    if (line->is_open())
      wait_for_any({line->socket()});
    else
      std::this_thread::sleep_for(kTurn);
    line->receive();
    while (const std::optional<std::string> said = line->next()) {
      if (said->starts_with(kLostMark)) return hears_.end();
      ears.hear(*said);
    }
    if (metronome.is_due()) line->send(beat_line(ranks_, false));
    if (const std::string lost = ears.lost(); !lost.empty()) {
      if (ranks_.rank() > 1) std::this_thread::sleep_for(kFirstSays);
      if (ranks_.rank() == 1 || !hears_.is_asked_to_end()) hears_.lost(lost);
      return hears_.end();
    }
  }
  line->send(beat_line(ranks_, true));
}

}  // namespace mlx::dist
