// What Open MPI is told wherever mlx starts ranks: by mpirun (launch.h), or in what it exports for Slurm and
// Kubernetes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dist/mpi/module.h"

namespace mlx::dist {

// Names and values of MCA parameters.
inline std::vector<std::pair<std::string, std::string>> mpi_parameters() {
  // Over TCP a piece of a message goes at once. Larger ones than this ask the receiver first and wait for its answer:
  // on a link of 100 Mbit/s with 50 ms, 4 MiB took twice the time. What is on its way takes memory, up to some 20 MiB.
  constexpr int kHeader = 4096;  // more than Open MPI puts before a message
  const std::string piece = std::to_string(kMostBytes + kHeader);
  return {// Messages within a machine are copied through shared memory: to read another process's memory is forbidden
          // in many containers.
          {"btl_vader_single_copy_mechanism", "none"},
          {"btl_tcp_eager_limit", piece},
          {"btl_tcp_rndv_eager_limit", piece},
          {"btl_tcp_max_send_size", piece}};
}

}  // namespace mlx::dist
