// A manifest for Kubernetes that runs a command on several ranks: an MPIJob of Kubeflow's mpi-operator, kubeflow.org
// v2beta1. Used by `mlx export mpijob`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlx::dist {

struct MpiJob {
  std::vector<std::string> command;  // of each rank
  std::string name, image;
  std::string name_space;                       // "": that of who applies it
  std::string claim, mount;                     // a persistent volume claim and where it stands; no claim: no volume
  std::string folder;                           // of the ranks, absolute
  std::int64_t ranks = 1, slots = 1, cpus = 1;  // slots: ranks of each pod; cpus: cores of each rank
  std::int64_t memory = 0;                      // bytes of each rank; 0: not asked for
};

// YAML. Before a pod of the launcher is removed, the ranks get stop_signal() (launch.h). Throws kUsage for a name that
// Kubernetes does not take, and for text that is not UTF-8.
std::string mpijob_manifest(const MpiJob& job);

}  // namespace mlx::dist
