// Messages between the GPUs of several processes by NCCL, and the sums and scales of what they bring
// (kernels/device.h). A message is one ncclSend and one ncclRecv of the same group, so that no order of ranks blocks.
// Everything is requested on the GPU's peer stream.
#include <array>
#include <cstdio>
#include <cstring>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/module.h"
#include "kernels/cuda/nccl.h"

namespace mlx::kernels::cuda {
namespace nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";

bool find_all(void* library, Api& api) {
  find(library, "ncclGetLastError", api.get_last_error);
  return find(library, "ncclGetUniqueId", api.get_unique_id) && find(library, "ncclCommInitRank", api.init_rank) &&
         find(library, "ncclCommDestroy", api.destroy) && find(library, "ncclCommAbort", api.abort) &&
         find(library, "ncclCommGetAsyncError", api.get_async_error) &&
         find(library, "ncclGetErrorString", api.get_error_string) &&
         find(library, "ncclGroupStart", api.group_start) && find(library, "ncclGroupEnd", api.group_end) &&
         find(library, "ncclSend", api.send) && find(library, "ncclRecv", api.receive);
}

struct Opened {
  Api api{};
  const char* missing = nullptr;
};

const Opened& opened() {
  static const Opened once = [] {
    Opened out;
    void* const library = open_library({kName}, true);
    if (!library)
      out.missing = "NCCL is missing: there is no libnccl.so.2 on the loader's path or in /usr/local/cuda/lib64";
    else if (!find_all(library, out.api))
      out.missing = "this libnccl.so.2 has no ncclSend: NCCL 2.7 or later is needed";
    return out;
  }();
  return once;
}

}  // namespace

const Api* api() {
  return opened().missing ? nullptr : &opened().api;
}

}  // namespace nccl

namespace {

const char* missing() {
  return nccl::opened().missing;
}

// Null if `result` is none of an error.
const char* problem_of_call(const char* call, int result, void* comm) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return nullptr;
  thread_local std::array<char, 512> text;
  const nccl::Api& api = *nccl::api();
  const char* const last = api.get_last_error ? api.get_last_error(comm) : nullptr;
  std::snprintf(text.data(), text.size(), "%s: %s%s%s", call, api.get_error_string(result), last && *last ? ": " : "",
                last ? last : "");
  return text.data();
}

const char* make_id(std::uint8_t* id) {
  if (missing()) return missing();
  static_assert(sizeof(nccl::Id) == kPeerId);
  nccl::Id made{};
  const int result = nccl::api()->get_unique_id(&made);
  std::memcpy(id, &made, sizeof made);
  return problem_of_call("ncclGetUniqueId", result, nullptr);
}

const char* join(const Device& self, const std::uint8_t* id, int rank, int ranks, void** peers) {
  if (missing()) return missing();
  self.make_current();
  nccl::Id all{};
  std::memcpy(&all, id, sizeof all);
  *peers = nullptr;
  return problem_of_call("ncclCommInitRank", nccl::api()->init_rank(peers, ranks, all, rank), nullptr);
}

// A group is ended even if a call within it has failed; the first failure is told.
const char* exchange(const Device& self, void* peers, const PeerMessage* messages, int count) {
  self.make_current();
  const nccl::Api& api = *nccl::api();
  const auto stream = static_cast<cudaStream_t>(self.peer_stream);
  const char* failed = nullptr;
  int result = api.group_start();
  if (result != nccl::kSuccess) return problem_of_call("ncclGroupStart", result, peers);
  const auto call = [&](const char* name, int status) {
    if (failed || status == nccl::kSuccess) return;
    failed = name;
    result = status;
  };
  for (const PeerMessage* message = messages; message != messages + count; ++message) {
    const auto leaving = static_cast<std::size_t>(message->leaving);
    const auto arriving = static_cast<std::size_t>(message->arriving);
    if (leaving > 0) call("ncclSend", api.send(message->leaves, leaving, nccl::kFloat, message->other, peers, stream));
    if (arriving > 0)
      call("ncclRecv", api.receive(message->arrives, arriving, nccl::kFloat, message->other, peers, stream));
  }
  call("ncclGroupEnd", api.group_end());
  return failed ? problem_of_call(failed, result, peers) : nullptr;
}

const char* problem(const Device&, void* peers) {
  int error = nccl::kSuccess;
  const int result = nccl::api()->get_async_error(peers, &error);
  if (result != nccl::kSuccess) return problem_of_call("ncclCommGetAsyncError", result, peers);
  return problem_of_call("a message between GPUs", error, peers);
}

void leave(const Device& self, void* peers) {
  self.make_current();
  static_cast<void>(nccl::api()->destroy(peers));
}

void abort(const Device& self, void* peers) {
  self.make_current();
  static_cast<void>(nccl::api()->abort(peers));
}

Args on_stream(void* stream) {
  Args args{};
  args.stream = stream;
  return args;
}

}  // namespace

void add(const Device& self, float* sum, const float* term, std::int64_t count, void* stream) {
  self.make_current();
  each(on_stream(stream), count, [=] __device__(std::int64_t i) { sum[i] += term[i]; });
}

void scale(const Device& self, float* to, const float* from, float factor, std::int64_t count, void* stream) {
  self.make_current();
  each(on_stream(stream), count, [=] __device__(std::int64_t i) { to[i] = factor * from[i]; });
}

const PeerCalls kPeerCalls{
    .missing = missing,
    .make_id = make_id,
    .join = join,
    .exchange = exchange,
    .problem = problem,
    .leave = leave,
    .abort = abort,
};

}  // namespace mlx::kernels::cuda
