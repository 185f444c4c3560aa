// Progress on stderr: a bar with rate and ETA on a terminal, one line every ten seconds elsewhere, nothing under -q. A
// rank whose launcher listens tells it instead, and the launcher shows it.
//
// advance() may be called from any thread; everything else belongs to the thread that runs the command.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/progress.h"

namespace mlx::cmd {

class ProgressBar final : public Progress {
 public:
  ProgressBar(bool quiet, bool colour, const Interruption& interruption = Interruption::never());

  void begin(std::string_view stage, std::uint64_t total, std::string_view unit) override;
  void advance(std::uint64_t count) override;
  void note(std::string_view text) override;
  void end() override;
  void warn(std::string_view text) override;  // shown even under -q

  void print_line(std::string_view text);  // a line on stderr, with the bar out of its way
  // The same for a line that another mlx has made for people.
  void pass_on(std::string_view line);
  // A second line, below the bar; elsewhere than on a terminal it stands behind the first one. "" for none.
  void set_below(std::string_view text);

 private:
  void tell_launcher(bool ended);  // holding mutex_
  void draw(double now);           // holding mutex_
  void clear();

  const bool quiet_, colour_, told_, terminal_;
  std::mutex mutex_;
  std::string stage_, unit_, note_, below_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> active_{false};
  std::atomic<double> next_draw_{0};  // of seconds_now()
  double started_ = 0;
  bool drawn_ = false;
};

// What a bar's line says, for tests: "train  45 %  1.2k images/s  ETA 0:12  loss 0.3".
std::string progress_text(const std::string& stage, std::uint64_t done, std::uint64_t total, const std::string& unit,
                          double seconds, const std::string& note);

}  // namespace mlx::cmd
