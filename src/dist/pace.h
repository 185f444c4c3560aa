// How fast ranks go, from their beats (pulse.h): rates over the last seconds, and the rank that the others wait for.
// Used by the launcher, which shows them.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/pulse.h"

namespace mlx::dist {

// "b" of "rank 2 on b"; the name itself if it names no host.
std::string host_of(const std::string& rank_name);

// The middle value, the lower one of two; 0 for none.
double median(std::vector<double> values);

class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  // The seconds that rates are about, or more where steps are long.
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr std::int64_t kSteps = 3;  // at least
  // A slow rank takes so many times the others' median of own time for a step, and what it takes more is so large a
  // share of the step: where messages take most of it, slower computing costs little.
  static constexpr double kSlow = 1.5, kLostShare = 0.2;

  // A rank without steps is none of those that train, or has not begun.
  void take(const Beat& beat, Clock::time_point now);

  struct Figures {
    std::string unit;  // "images"
    double units_per_second = 0, bytes_per_second = 0;
    std::vector<std::pair<std::string, double>> hosts;  // units a second of each, as ranks come
    double waiting = 0;                                 // share of the ranks' time in which they wait for messages
    std::string slowest;                                // the rank with the longest own time a step
    double factor = 1;                                  // which is so many times the median of the others
  };
  // None before several steps of each were heard of.
  std::optional<Figures> figures() const;

  // What to tell a person of a rank that has been slow for kWindow; each rank once. "" for nothing new.
  std::string slow_rank();

 private:
  struct Sample {
    Clock::time_point when;
    Beat beat;
  };
  struct Rank {
    std::deque<Sample> samples;  // those of the window, and the last one before it
    bool told = false;
  };
  // Of a rank in its window. A rank's own time is that in which it waits for no other.
  struct Span {
    double clock = 0;                          // the launcher's
    double seconds = 0, own = 0, reading = 0;  // of steps
    double cpu = 0, units = 0, bytes = 0, steps = 0;
    double own_a_step() const { return own / steps; }
    double cores() const { return own > 0 ? cpu / own : 0; }
  };
  static std::optional<Span> span_of(const Rank& rank);
  static std::string cause(const Span& slow);

  std::map<int, Rank> ranks_;
};

}  // namespace mlx::dist
