// Commands whose work several processes do together: finds the other ranks, or starts them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "dist/communicator.h"

namespace mlx::cmd {

// The other ranks, if this process is one of several that MPI has started; else null. `wanted`: the value of --ranks, 0
// if it was not given; throws kUsage if MPI has started another number.
std::unique_ptr<dist::Communicator> join_ranks(std::int64_t wanted, Context& context);

// Runs `mlx ARGUMENTS` on so many ranks of this machine, which share its cores. Returns its exit code.
int run_on_ranks(std::int64_t ranks, std::vector<std::string> arguments, Context& context);

}  // namespace mlx::cmd
