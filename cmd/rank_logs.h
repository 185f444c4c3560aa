// What each rank of a training has said on its stderr, as the launcher heard it: the end of it, within a bound. Kept
// with the run. Beats and progress are no part of it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace mlx::cmd {

class RankLogs {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 20;  // bytes of a rank
  static constexpr std::size_t kMostRanks = 4097;

  // A line without its end. `rank`: -1 for lines that do not say whose they are: of MPI, or of some rank's libraries.
  void add(int rank, std::string_view line);
  // Lines by rank, in the order in which they came, without what a terminal would act on. A log that was cut begins
  // with a line that says so.
  std::map<int, std::string> texts() const;

 private:
  struct Log {
    std::string text;
    bool cut = false;
  };
  std::map<int, Log> logs_;
};

}  // namespace mlx::cmd
