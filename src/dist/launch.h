// Starting the ranks of a training on this machine and others: `mpirun` as a child, which starts a program once for
// each rank, on other hosts by the user's own ssh. What the ranks print comes out of our own streams.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/interruption.h"
#include "dist/hosts.h"
#include "dist/watch.h"

namespace mlx::dist {

// A host's ranks.
struct Place {
  Host host;
  std::vector<std::string> command;                            // the program's absolute path there, and its arguments
  std::vector<std::pair<std::string, std::string>> variables;  // set for them
};

struct Launch {
  std::vector<Place> places;  // the first is this machine
  std::string ssh;            // a command line to run in place of "ssh"; "" for none
  std::string network;        // that MPI uses between hosts, as "10.77.0.0/24"; "" for all that they have
  bool as_root = false;       // the user is root, for whom mpirun wants an option
};

// The command line of mpirun.
std::vector<std::string> mpirun_command(const Launch& launch);

// The signal that asks a rank to stop after its step, as SIGINT asks a program: mpirun passes it on to all of them. On
// SIGINT and SIGTERM it would end them itself.
int stop_signal();

struct RanksEnd {
  int code = 0;  // the first exit code that is not 0; 128 and a signal if that ended a rank
  std::string
      why;  // which rank is lost, or ended by a signal, or why mpirun started none; "" if ranks said it themselves
};
// What a launch looks at while ranks run.
using Question = std::function<bool()>;
// Runs all ranks to their end. The listener hears what they write to stderr, line by line. An interruption is passed on
// to the ranks, whose first one says how far it came. A rank that says nothing for some seconds is lost, and the others
// are ended. If this process dies, however it does, mpirun ends them. Throws kMissing if there is no mpirun.
// Once `pauses` is true, they are asked to stop after their step, as by an interruption.
RanksEnd run_ranks(const Launch& launch, const Interruption& interruption, RanksListener& listener,
                   const Question& pauses = {});

}  // namespace mlx::dist
