// Ranks that are processes of Open MPI, started by mpirun for mlx itself (launch.h) or for anyone, or by Slurm's srun.
#pragma once

#include <memory>

#include "base/environment.h"
#include "dist/communicator.h"

namespace mlx::dist {

// How many ranks mpirun or `srun --mpi=pmix` says that it has started, of which this process is one; 1 if none.
int ranks_started(const Environment& environment);

// Why ranks cannot be started on this machine: no module, no `orted`, which mpirun runs there. "" if they can.
std::string why_no_mpi();

// Joins the other ranks, so many of them, once in a process. When it is destroyed, it waits until they are, except
// during an exception: then this process ends, and whoever started it ends the others. Throws kMissing if the module or
// its library is not there, or finds other ranks.
std::unique_ptr<Communicator> join_ranks(int started);

}  // namespace mlx::dist
