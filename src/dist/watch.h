// Watches the ranks that mpirun runs, by what comes out of its stderr: their beats (pulse.h), what else they tell
// (rank_lines.h), and mpirun's own messages. Used by launch.cpp.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "dist/pulse.h"
#include "dist/rank_lines.h"

namespace mlx::dist {

// Hears what ranks tell, as it comes.
class RanksListener {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~RanksListener() = default;
  virtual void hear_beat(const Beat& beat, Clock::time_point now) = 0;
  // A line for people, without its end. `rank`: -1 if it does not say whose it is, which mlx's own lines do.
  virtual void hear_line(int rank, std::string_view line) = 0;
  virtual void hear_stage(const Stage& stage) = 0;    // of rank 0
  virtual void hear_run(const std::string& run) = 0;  // the id of the run that rank 0 has begun
};

class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSilence{8};  // of a rank that is lost

  // `listener` must outlive it.
  explicit Watch(RanksListener& listener) : listener_(listener) {}
  void take(std::string_view bytes, Clock::time_point now);
  void finish();  // no more comes
  // "rank 2 on b has said nothing for 8 s; at step 12 it waited for rank 0": the rank that was silent first; "" if all
  // speak.
  std::string lost(Clock::time_point now) const;
  // "rank 1 on b was ended by signal 9", or else what mpirun said; "" if it said nothing.
  std::string why() const;

 private:
  struct Heard {
    Beat beat;
    Clock::time_point when;
  };
  void take_line(std::string_view line, Clock::time_point now);
  void end_message();
  std::string name_of(int rank) const;

  RanksListener& listener_;
  std::string rest_;        // a line that has not ended
  bool by_mpirun_ = false;  // between its rulers
  std::string message_;     // of mpirun, so far
  std::string of_mpirun_;   // the first that it ended, in one line
  std::string died_;        // which rank did
  std::map<int, Heard> heard_;
};

}  // namespace mlx::dist
