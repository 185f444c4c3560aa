// The only source that knows MPI.
#define OMPI_SKIP_MPICXX 1
#include "dist/mpi/module.h"

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace mlx::dist {
namespace {

void tell(int code, char* problem, std::size_t size) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  std::snprintf(problem, size, "%s", text.data());
}

// Open MPI opens its own parts, which look for its functions among those of the whole program.
void show_library_to_its_parts() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &found) != 0 && found.dli_fname)
    dlopen(found.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

bool start(char* problem, std::size_t size) {
  show_library_to_its_parts();
  int level = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (code != MPI_SUCCESS) {
    tell(code, problem, size);
    return false;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    std::snprintf(problem, size, "it does not serve programs with threads");
    return false;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return true;
}

void end() {
  MPI_Finalize();
}

int rank() {
  int out = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &out);
  return out;
}

int ranks() {
  int out = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &out);
  return out;
}

void host(char* name, std::size_t size) {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> text{};
  int length = 0;
  MPI_Get_processor_name(text.data(), &length);
  std::snprintf(name, size, "%s", text.data());
}

struct Transfer {
  MPI_Request request = MPI_REQUEST_NULL;
  std::int64_t expected = -1;  // bytes to receive; -1: it is sent
};

void* begun(int code, Transfer* transfer, char* problem, std::size_t size) {
  if (code == MPI_SUCCESS) return transfer;
  tell(code, problem, size);
  delete transfer;
  return nullptr;
}

void* send(int to, int tag, const void* data, std::int64_t bytes, char* problem, std::size_t size) {
  auto* const transfer = new Transfer;
  return begun(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &transfer->request),
               transfer, problem, size);
}

void* receive(int from, int tag, void* data, std::int64_t bytes, char* problem, std::size_t size) {
  auto* const transfer = new Transfer;
  transfer->expected = bytes;
  return begun(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, &transfer->request),
               transfer, problem, size);
}

// To MPI a message that is shorter than its memory is none the worse.
bool has_expected_size(const MPI_Status& status, std::int64_t expected, char* problem, std::size_t size) {
  int came = 0;
  MPI_Get_count(&status, MPI_BYTE, &came);
  if (came == expected) return true;
  std::snprintf(problem, size, "it sent %d bytes instead of %" PRId64, came, expected);
  return false;
}

int test(void* opaque, char* problem, std::size_t size) {
  auto* const transfer = static_cast<Transfer*>(opaque);
  const std::int64_t expected = transfer->expected;
  int done = 0;
  MPI_Status status{};
  const int code = MPI_Test(&transfer->request, &done, &status);
  if (code == MPI_SUCCESS && !done) return 0;
  delete transfer;
  if (code != MPI_SUCCESS) {
    tell(code, problem, size);
    return -1;
  }
  return expected < 0 || has_expected_size(status, expected, problem, size) ? 1 : -1;
}

}  // namespace
}  // namespace mlx::dist

extern "C" const mlx::dist::MpiModule* mlx_mpi_module() {
  using namespace mlx::dist;
  static const MpiModule module{kMpiModuleVersion, start, end, rank, ranks, host, send, receive, test};
  return &module;
}
