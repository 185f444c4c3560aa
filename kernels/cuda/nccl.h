// NCCL: declarations of the part of its API that is used, so that mlx builds without its headers. Values and signatures
// are those of the NCCL 2 API reference; library_check.cu compares them with the real header if there is one. Used by
// peers.cu.
#pragma once

#include "kernels/cuda/library.h"

namespace mlx::kernels::cuda::nccl {

inline constexpr int kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6,
                     kInProgress = 7;  // ncclResult_t
inline constexpr int kFloat = 7;       // ncclDataType_t

struct Id {  // ncclUniqueId
  char internal[128];
};

// The library's functions by name. A communicator is an opaque pointer.
struct Api {
  int (*get_unique_id)(Id* id);                               // ncclGetUniqueId
  int (*init_rank)(void** comm, int ranks, Id id, int rank);  // ncclCommInitRank
  int (*destroy)(void* comm);                                 // ncclCommDestroy
  int (*abort)(void* comm);                                   // ncclCommAbort
  int (*get_async_error)(void* comm, int* error);             // ncclCommGetAsyncError
  const char* (*get_error_string)(int result);                // ncclGetErrorString
  int (*group_start)();                                       // ncclGroupStart
  int (*group_end)();                                         // ncclGroupEnd
  int (*send)(const void* data, std::size_t count, int type, int peer, void* comm, cudaStream_t stream);  // ncclSend
  int (*receive)(void* data, std::size_t count, int type, int peer, void* comm, cudaStream_t stream);     // ncclRecv
  const char* (*get_last_error)(void* comm) = nullptr;  // ncclGetLastError; null before 2.13
};
// Null if the library is missing, or older than 2.7, which has no messages between two ranks. Opened once.
const Api* api();

}  // namespace mlx::kernels::cuda::nccl
