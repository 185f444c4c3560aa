// What the launcher of a training shows of its ranks while they run: rank 0's progress, below it how fast they go, and
// a warning about one that is slow. It also collects what each of them says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "cmd/cli/progress_bar.h"
#include "cmd/rank_logs.h"
#include "dist/pace.h"
#include "dist/watch.h"
#include "registry/versions/runs.h"

namespace mlx::cmd {

// "1.2k images/s of localhost 610, b 590  slowest rank 1 on b 1.30x  waiting 12 %  3.1 MB/s"
std::string pace_text(const dist::Pace::Figures& figures);

class RankView final : public dist::RanksListener {
 public:
  explicit RankView(Context& context);

  void hear_beat(const dist::Beat& beat, Clock::time_point now) override;
  void hear_line(int rank, std::string_view line) override;
  void hear_stage(const dist::Stage& stage) override;
  void hear_run(const std::string& run) override { run_ = run; }

  void expect_stop() { stops_ = true; }            // that rank 0 stops is no error from now on
  void end();                                      // no more comes
  const std::string& run() const { return run_; }  // "" before rank 0 has begun one
  // What each rank said, under its name.
  std::vector<registry::RankLog> logs() const;

 private:
  ProgressBar bar_;
  dist::Pace pace_;
  Clock::time_point paced_;           // when it was last looked at
  dist::Stage shown_{.ended = true};  // the stage that the bar is at
  std::string run_;
  bool stops_ = false, hides_hint_ = false;
  RankLogs logs_;
  std::map<int, std::string> names_;  // "rank 1 on b"
};

// Keeps with the run what its ranks said, however they ended. If that fails, it is a warning.
void keep_logs(const RankView& view, Context& context);

}  // namespace mlx::cmd
