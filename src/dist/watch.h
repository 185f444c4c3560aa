// Watches the ranks that mpirun runs, by what comes out of its stderr: their beats (pulse.h), what they say to people,
// and mpirun's own messages. Used by launch.cpp.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "dist/pulse.h"

namespace mlx::dist {

class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSilence{8};  // of a rank that is lost

  // `say` receives the lines for people, without their ends.
  explicit Watch(std::function<void(std::string_view)> say) : say_(std::move(say)) {}
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

  std::function<void(std::string_view)> say_;
  std::string rest_;        // a line that has not ended
  bool by_mpirun_ = false;  // between its rulers
  std::string message_;     // of mpirun, so far
  std::string of_mpirun_;   // the first that it ended, in one line
  std::string died_;        // which rank did
  std::map<int, Heard> heard_;
};

}  // namespace mlx::dist
