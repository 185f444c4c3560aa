// The only source that knows MPI.
#define OMPI_SKIP_MPICXX 1
#include "dist/mpi/module.h"

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <array>
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

void abort_all(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
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

void* begun(int code, MPI_Request* request, char* problem, std::size_t size) {
  if (code == MPI_SUCCESS) return request;
  tell(code, problem, size);
  delete request;
  return nullptr;
}

void* send(int to, int tag, const void* data, std::int64_t bytes, char* problem, std::size_t size) {
  auto* const request = new MPI_Request;
  return begun(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, request), request, problem,
               size);
}

void* receive(int from, int tag, void* data, std::int64_t bytes, char* problem, std::size_t size) {
  auto* const request = new MPI_Request;
  return begun(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, request), request, problem,
               size);
}

int test(void* transfer, char* problem, std::size_t size) {
  auto* const request = static_cast<MPI_Request*>(transfer);
  int done = 0;
  const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && !done) return 0;
  if (code != MPI_SUCCESS) tell(code, problem, size);
  delete request;
  return code == MPI_SUCCESS ? 1 : -1;
}

}  // namespace
}  // namespace mlx::dist

extern "C" const mlx::dist::MpiModule* mlx_mpi_module() {
  using namespace mlx::dist;
  static const MpiModule module{kMpiModuleVersion, start, end, abort_all, rank, ranks, host, send, receive, test};
  return &module;
}
