// Ranks that are processes which MPI started: by mlx itself (launch.h), by mpirun, or by a batch system.
#pragma once

#include <memory>

#include "base/environment.h"
#include "dist/communicator.h"

namespace mlx::dist {

// How many ranks MPI says that it has started, of which this process is one; 1 if it started none. Knows Open MPI, and
// MPICH's and Slurm's PMI.
int ranks_started(const Environment& environment);

// Joins the other ranks, once in a process. When it is destroyed, it waits until they are, except during an exception:
// then this process ends, and whoever started it ends the others. Throws kMissing if the module or its library is not
// there.
std::unique_ptr<Communicator> join_ranks();

}  // namespace mlx::dist
