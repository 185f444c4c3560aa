// Starting the ranks of a training on this machine: `mpirun` as a child, which starts this program again, once for each
// rank. What the ranks print comes out of our own streams.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/interruption.h"

namespace mlx::dist {

struct Launch {
  std::vector<std::string> command;  // of each rank: the program's absolute path and its arguments
  int ranks = 2;
  std::vector<std::pair<std::string, std::string>> variables;  // set for the ranks
  bool as_root = false;                                        // the user is root, for whom mpirun wants an option
};

// The command line of mpirun.
std::vector<std::string> mpirun_command(const Launch& launch);

// The signal that asks a rank to stop after its step, as SIGINT asks a program: mpirun passes it on to all of them. On
// SIGINT and SIGTERM it would end them itself.
int stop_signal();

// Runs all ranks to their end. Returns the first exit code that is not 0; 128 and a signal if that ended a rank. An
// interruption is passed on to the ranks, whose first one says how far it came. If this process dies, however it does,
// mpirun ends them. Throws kMissing if there is no mpirun.
int run_ranks(const Launch& launch, const Interruption& interruption);

}  // namespace mlx::dist
