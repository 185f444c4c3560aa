// The functions of the module lib/mlx/mlx_mpi.so, which links Open MPI. Opened by the processes of ranks alone
// (mpi.cpp). One thread at a time calls them. Texts of problems are MPI's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx::dist {

constexpr int kMpiModuleVersion = 1;

struct MpiModule {
  int version;
  // Joins the other ranks. False with a problem if there are none to join.
  bool (*start)(char* problem, std::size_t size);
  void (*end)();  // waits for all ranks
  int (*rank)();
  int (*ranks)();
  void (*host)(char* name, std::size_t size);
  // A transfer of at most kMostBytes to or from `rank`; nullptr with a problem.
  void* (*send)(int rank, int tag, const void* data, std::int64_t bytes, char* problem, std::size_t size);
  void* (*receive)(int rank, int tag, void* data, std::int64_t bytes, char* problem, std::size_t size);
  // 1: it is done, and no longer exists; 0: it goes on; -1: it failed, and no longer exists.
  int (*test)(void* transfer, char* problem, std::size_t size);
};

// Larger messages are cut into transfers of this size. The end of each shows who waits that bytes move: between two
// looks MPI does not say so, and over sockets and copies through shared memory they move only when it is asked. MPI
// holds some of them in memory (mpi_parameters.h).
constexpr std::int64_t kMostBytes = std::int64_t{1} << 18;

}  // namespace mlx::dist
