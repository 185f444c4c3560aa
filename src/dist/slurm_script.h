// A batch script for Slurm that runs a command on several ranks. Used by `mlx export slurm`; sbatch(1) is its language.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mlx::dist {

struct SlurmJob {
  std::vector<std::string> command;  // of each rank
  std::string name, folder;          // the folder is absolute
  std::int64_t ranks = 1, cpus = 1;  // cores of each rank
  std::int64_t memory = 0;           // bytes of each rank; 0: not asked for
  std::string launcher = "auto";     // auto, srun, mpirun
  std::int64_t notice = 120;         // seconds before the time limit at which the ranks are asked to stop
  std::vector<std::pair<std::string, std::string>> options;  // more of sbatch: {"time", "2:00:00"}
};

// The script's ranks get stop_signal() (launch.h) before the time limit; what ends by it is queued again, and has to
// continue where it was. Throws kUsage for what a line of sbatch's options cannot say, or an option that it sets
// itself.
std::string slurm_script(const SlurmJob& job);

}  // namespace mlx::dist
