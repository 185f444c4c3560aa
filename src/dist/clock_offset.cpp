// Cristian's algorithm (1989): an answer that took the least time was read in the middle of it.
#include "dist/clock_offset.h"

#include <array>

#include "base/clock.h"

namespace mlx::dist {
namespace {

constexpr int kRounds = 16;
constexpr int kClockTag = Communicator::kTags - 1;  // of collectives.h: all ranks are here now

void send_time(Communicator& ranks, int to, double value) {
  std::array transfers{ranks.send(to, kClockTag, &value, sizeof value)};
  ranks.wait(transfers);
}

double receive_time(Communicator& ranks, int from) {
  double value = 0;
  std::array transfers{ranks.receive(from, kClockTag, &value, sizeof value)};
  ranks.wait(transfers);
  return value;
}

// On rank 0.
double offset_of(Communicator& ranks, int other) {
  double fastest = 0, offset = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double asked = seconds_now();
    send_time(ranks, other, asked);
    const double there = receive_time(ranks, other), took = seconds_now() - asked;
    if (round > 0 && took >= fastest) continue;
    fastest = took;
    offset = asked + took / 2 - there;
  }
  return offset;
}

}  // namespace

double clock_offset(Communicator& ranks) {
  if (ranks.rank() == 0) {
    for (int other = 1; other < ranks.ranks(); ++other) send_time(ranks, other, offset_of(ranks, other));
    return 0;
  }
  for (int round = 0; round < kRounds; ++round) {
    (void)receive_time(ranks, 0);
    send_time(ranks, 0, seconds_now());
  }
  return receive_time(ranks, 0);
}

}  // namespace mlx::dist
