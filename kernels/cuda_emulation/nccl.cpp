// An emulated libnccl (libraries.h): messages of f32 between the emulated GPUs of processes on this machine, over
// sockets with names that no file system has. A message goes when its stream comes to it; both sides must name the same
// size. To test failures, MLX_EMULATED_GPU_LIBRARY_FAILS names the call that fails; a process that ends is a remote
// error for the others.
#include "kernels/cuda/nccl.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda_emulation/libraries.h"
#include "kernels/cuda_emulation/streams.h"

namespace mlx::emulation {
namespace {

using namespace kernels::cuda::nccl;

constexpr std::chrono::seconds kPatience{60};  // with ranks that have not joined

struct Comm {
  int rank = 0, ranks = 1;
  std::vector<int> sockets;  // by rank; -1 for its own
  std::atomic<int> error = kSuccess;
  ~Comm() {
    for (const int socket : sockets)
      if (socket >= 0) ::close(socket);
  }
};

// One direction of a message: its size, and then its bytes.
struct Part {
  char* data = nullptr;
  std::uint64_t bytes = 0;
  std::size_t done = 0;
  std::uint64_t said = 0;  // by the other side
};
struct Peer {
  std::deque<Part> leaving, arriving;
};

struct Group {
  int depth = 0;
  Comm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Peer> peers;
};
thread_local Group group;
thread_local std::string last_error;

int refuse(int result, const char* why) {
  last_error = why;
  return result;
}

sockaddr_un address_of(const Id& id, int rank) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::snprintf(out.sun_path + 1, sizeof out.sun_path - 1, "%.80s-%d", id.internal, rank);
  return out;
}

int get_unique_id(Id* id) {
  if (wanted_to_fail("ncclGetUniqueId")) return refuse(kSystemError, "emulated");
  static std::atomic<int> made = 0;
  *id = {};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(id->internal, sizeof id->internal, "mlx-nccl-%d-%d-%lld", ::getpid(), ++made,
                static_cast<long long>(now));
  return kSuccess;
}

bool read_all(int socket, void* data, std::size_t bytes) {
  return ::recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

// Calls those before it, and answers those behind it.
bool connect_all(Comm& comm, const Id& id) {
  const int own = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = address_of(id, comm.rank);
  bool good =
      ::bind(own, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(own, comm.ranks) == 0;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (int other = 0; good && other < comm.rank; ++other) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    comm.sockets[static_cast<std::size_t>(other)] = socket;
    address = address_of(id, other);
    while ((good = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) == false &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    good = good && ::send(socket, &comm.rank, sizeof comm.rank, MSG_NOSIGNAL) == sizeof comm.rank;
  }
  for (int other = comm.rank + 1; good && other < comm.ranks; ++other) {
    pollfd waiting{own, POLLIN, 0};
    good = ::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
    const int socket = good ? ::accept4(own, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    int who = -1;
    good = socket >= 0 && read_all(socket, &who, sizeof who) && who > comm.rank && who < comm.ranks;
    if (good) comm.sockets[static_cast<std::size_t>(who)] = socket;
  }
  ::close(own);
  for (const int socket : comm.sockets)
    if (socket >= 0) ::fcntl(socket, F_SETFL, O_NONBLOCK);
  return good;
}

int init_rank(void** comm, int ranks, Id id, int rank) {
  if (wanted_to_fail("ncclCommInitRank")) return refuse(kSystemError, "emulated");
  if (!comm || rank < 0 || rank >= ranks || id.internal[0] == '\0') return refuse(kInvalidArgument, "a rank or its id");
  auto made = std::make_unique<Comm>();
  made->rank = rank;
  made->ranks = ranks;
  made->sockets.assign(static_cast<std::size_t>(ranks), -1);
  if (!connect_all(*made, id)) return refuse(kSystemError, "the other ranks cannot be reached");
  *comm = made.release();
  return kSuccess;
}

int destroy(void* comm) {
  delete static_cast<Comm*>(comm);
  return kSuccess;
}

// The memory stays, as requested work may still look at it.
int abort(void* comm) {
  auto& aborted = *static_cast<Comm*>(comm);
  aborted.error = kInvalidUsage;
  for (int& socket : aborted.sockets)
    if (socket >= 0) ::close(std::exchange(socket, -1));
  return kSuccess;
}

int get_async_error(void* comm, int* error) {
  *error = static_cast<Comm*>(comm)->error;
  return kSuccess;
}

const char* get_error_string(int result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kSystemError:
      return "unhandled system error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    case kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "unknown result code";
  }
}

const char* get_last_error(void*) {
  return last_error.c_str();
}

constexpr std::size_t kSize = sizeof(std::uint64_t);

// Moves what the socket takes now. False if the other side has gone.
bool send_some(int socket, std::deque<Part>& parts) {
  while (!parts.empty()) {
    Part& part = parts.front();
    const bool head = part.done < kSize;
    const char* const from =
        head ? reinterpret_cast<const char*>(&part.bytes) + part.done : part.data + (part.done - kSize);
    const std::size_t left = head ? kSize - part.done : kSize + part.bytes - part.done;
    const ssize_t sent = ::send(socket, from, left, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    part.done += static_cast<std::size_t>(sent);
    if (part.done == kSize + part.bytes) parts.pop_front();
  }
  return true;
}

bool receive_some(Comm& comm, int socket, std::deque<Part>& parts) {
  while (!parts.empty()) {
    Part& part = parts.front();
    const bool head = part.done < kSize;
    char* const to = head ? reinterpret_cast<char*>(&part.said) + part.done : part.data + (part.done - kSize);
    const std::size_t left = head ? kSize - part.done : kSize + part.bytes - part.done;
    const ssize_t came = ::recv(socket, to, left, 0);
    if (came < 0) return errno == EAGAIN || errno == EINTR;
    if (came == 0) return false;
    part.done += static_cast<std::size_t>(came);
    if (part.done == kSize && part.said != part.bytes) {
      comm.error = kInvalidUsage;  // a GPU would wait for ever, or write beyond the end
      return true;
    }
    if (part.done == kSize + part.bytes) parts.pop_front();
  }
  return true;
}

// Until all messages of the group have gone and come, or one cannot.
void run_group(Comm& comm, std::vector<Peer>& peers) {
  for (;;) {
    std::vector<pollfd> open;
    for (std::size_t rank = 0; rank < peers.size() && comm.error == kSuccess; ++rank) {
      Peer& peer = peers[rank];
      const int socket = comm.sockets[rank];
      if (!send_some(socket, peer.leaving) || !receive_some(comm, socket, peer.arriving)) comm.error = kRemoteError;
      const auto events =
          static_cast<short>((peer.leaving.empty() ? 0 : POLLOUT) | (peer.arriving.empty() ? 0 : POLLIN));
      if (events != 0) open.push_back({socket, events, 0});
    }
    if (comm.error != kSuccess || open.empty()) return;
    ::poll(open.data(), open.size(), 1000);
  }
}

int add_to_group(void* comm, int peer, cudaStream_t stream, int type, const void* data, std::size_t count,
                 bool leaves) {
  if (!comm || group.depth == 0) return refuse(kInvalidUsage, "a message outside of a group");
  auto& of = *static_cast<Comm*>(comm);
  if (type != kFloat || count == 0 || !is_in_device(data)) return refuse(kInvalidArgument, "a message's memory");
  if (peer < 0 || peer >= of.ranks || peer == of.rank) return refuse(kInvalidArgument, "a message's other rank");
  if (device_of(stream) != current_device() || (group.comm && (group.comm != &of || group.stream != stream)))
    return refuse(kInvalidUsage, "a message's stream");
  group.comm = &of;
  group.stream = stream;
  group.peers.resize(static_cast<std::size_t>(of.ranks));
  Peer& other = group.peers[static_cast<std::size_t>(peer)];
  Part part{static_cast<char*>(const_cast<void*>(data)), count * sizeof(float), 0, 0};
  (leaves ? other.leaving : other.arriving).push_back(part);
  return kSuccess;
}

int send(const void* data, std::size_t count, int type, int peer, void* comm, cudaStream_t stream) {
  if (wanted_to_fail("ncclSend")) return refuse(kSystemError, "emulated");
  return add_to_group(comm, peer, stream, type, data, count, true);
}

int receive(void* data, std::size_t count, int type, int peer, void* comm, cudaStream_t stream) {
  if (wanted_to_fail("ncclRecv")) return refuse(kSystemError, "emulated");
  return add_to_group(comm, peer, stream, type, data, count, false);
}

int group_start() {
  ++group.depth;
  return kSuccess;
}

int group_end() {
  if (group.depth == 0) return refuse(kInvalidUsage, "a group that was not begun");
  if (--group.depth > 0) return kSuccess;
  const Group ended = std::exchange(group, {});
  if (wanted_to_fail("ncclGroupEnd")) return refuse(kSystemError, "emulated");
  if (!ended.comm) return kSuccess;
  ask(ended.stream, [comm = ended.comm, peers = ended.peers]() mutable { run_group(*comm, peers); });
  return kSuccess;
}

}  // namespace

std::span<const Function> nccl_functions() {
  static const Function all[] = {
      exported("ncclGetUniqueId", &Api::get_unique_id, get_unique_id),
      exported("ncclCommInitRank", &Api::init_rank, init_rank),
      exported("ncclCommDestroy", &Api::destroy, destroy),
      exported("ncclCommAbort", &Api::abort, abort),
      exported("ncclCommGetAsyncError", &Api::get_async_error, get_async_error),
      exported("ncclGetErrorString", &Api::get_error_string, get_error_string),
      exported("ncclGetLastError", &Api::get_last_error, get_last_error),
      exported("ncclGroupStart", &Api::group_start, group_start),
      exported("ncclGroupEnd", &Api::group_end, group_end),
      exported("ncclSend", &Api::send, send),
      exported("ncclRecv", &Api::receive, receive),
  };
  return all;
}

}  // namespace mlx::emulation
