// An abstract Unix socket, which has no file. Who may connect is decided by the credentials that the kernel gives.
#include "dist/launch_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"

namespace mlx::dist {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kSecret = 32, kLongest = std::size_t{4} << 20, kRequest = 12;
constexpr std::uint8_t kRefusal = 0, kGrant = 1;
constexpr std::chrono::minutes kLongestLaunch{10};
constexpr time_t kAnswer = 20;  // seconds in which the other side of a connection must speak

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

Address address_of(const std::string& holder) {
  Address out;
  out.name.sun_family = AF_UNIX;
  const std::string text = "mlx-launch-" + holder;  // after a zero byte: no file
  if (text.size() + 1 > sizeof out.name.sun_path) fail(ErrorKind::kUsage, "{}: too long", kLaunchVariable);
  std::memcpy(out.name.sun_path + 1, text.data(), text.size());
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return out;
}

Fd make_socket() {
  Fd out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!out) fail_errno(errno, "a socket", "make");
  return out;
}

void limit_waiting(int socket) {
  const timeval limit{kAnswer, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// Of a connection: whether a process of this user is at the other end.
bool is_own(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == ::geteuid();
}

// False if the stream ends before, or nothing comes for too long.
bool read_whole(int stream, std::uint8_t* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(stream, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got, size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_whole(int socket, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

HeldKey decode(ByteView bytes) {
  ByteReader in(bytes, "the key of a launch");
  if (in.u32() != kVersion) in.corrupt("another version");
  HeldKey out;
  out.first = static_cast<int>(in.u32()), out.count = static_cast<int>(in.u32());
  std::ranges::copy(in.take(out.key.id.size()), out.key.id.begin());
  out.key.secret = Secret(in.take(kSecret));
  const std::uint32_t hosts = in.u32();
  for (std::uint32_t i = 0; i < hosts; ++i) {
    const auto ranks = static_cast<int>(in.u32());
    if (ranks < 1) in.corrupt("a host without ranks");
    out.key.hosts.push_back({std::string(as_text(in.take(in.u16()))), ranks});
  }
  in.expect_end();
  const int ranks = ranks_on(out.key.hosts);
  if (out.first < 0 || out.count < 1 || out.first > ranks - out.count) in.corrupt("ranks that there are not");
  return out;
}

// To one connection. True if its rank has the key now.
bool answer(int socket, const HeldKey& held, std::set<int>& have) {
  std::array<std::uint8_t, kRequest> request{};
  if (!is_own(socket)) return false;
  limit_waiting(socket);
  if (!read_whole(socket, request.data(), request.size())) return false;
  ByteReader in(request);
  const std::uint32_t version = in.u32();
  const auto rank = static_cast<int>(in.u32()), ranks = static_cast<int>(in.u32());
  const bool expected = version == kVersion && ranks == ranks_on(held.key.hosts) && rank >= held.first &&
                        rank < held.first + held.count && !have.contains(rank);
  if (!expected) {
    send_whole(socket, {&kRefusal, 1});
    return false;
  }
  have.insert(rank);  // even if it fails: it may have arrived
  const Secret bytes = encode({held.key, rank, 1});
  return send_whole(socket, {&kGrant, 1}) && send_whole(socket, bytes);
}

}  // namespace

std::string LaunchKey::rank_name(int rank) const {
  int first = 0;
  for (const Host& host : hosts) {
    if (rank < first + host.ranks) return fmt::format("rank {} on {}", rank, host.name);
    first += host.ranks;
  }
  return fmt::format("rank {}", rank);
}

LaunchKey make_launch_key(std::vector<Host> hosts) {
  LaunchKey out;
  random_bytes(out.id);
  out.secret = Secret(kSecret);
  random_bytes({out.secret.data(), out.secret.size()});
  out.hosts = std::move(hosts);
  return out;
}

Secret encode(const HeldKey& held) {
  std::size_t size = 3 * 4 + held.key.id.size() + kSecret + 4;
  for (const Host& host : held.key.hosts) size += 4 + 2 + host.name.size();
  ByteWriter out(4 + size);  // never moved: the secret is in one place
  out.u32(static_cast<std::uint32_t>(size));
  out.u32(kVersion);
  out.u32(static_cast<std::uint32_t>(held.first)), out.u32(static_cast<std::uint32_t>(held.count));
  out.raw(held.key.id);
  out.raw(held.key.secret);
  out.u32(static_cast<std::uint32_t>(held.key.hosts.size()));
  for (const Host& host : held.key.hosts) {
    out.u32(static_cast<std::uint32_t>(host.ranks));
    out.u16(static_cast<std::uint16_t>(host.name.size())), out.raw(as_bytes(host.name));
  }
  CHECK(out.size() == 4 + size);
  Bytes bytes = out.take();
  Secret secret{ByteView(bytes)};
  wipe(bytes);
  return secret;
}

HeldKey read_held_key(int stream) {
  constexpr const char* kEnded = "the key of a launch: it ends too early";
  std::array<std::uint8_t, 4> head{};
  if (!read_whole(stream, head.data(), head.size())) fail(ErrorKind::kIo, kEnded);
  const std::uint32_t size = ByteReader(head).u32();
  if (size > kLongest) fail(ErrorKind::kCorrupt, "the key of a launch: {} bytes", size);
  Secret bytes(size);
  if (!read_whole(stream, bytes.data(), bytes.size())) fail(ErrorKind::kIo, kEnded);
  return decode(bytes);
}

std::string HeldKey::name() const {
  return fmt::format("{}-{}", to_hex(key.id), first);
}

Fd listen_for_ranks(const HeldKey& held) {
  Fd out = make_socket();
  const Address address = address_of(held.name());
  constexpr int kWaiting = 256;
  if (::bind(out.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) == 0 &&
      ::listen(out.get(), kWaiting) == 0)
    return out;
  if (errno == EADDRINUSE) fail(ErrorKind::kConflict, "somebody holds the key of the launch {} already", held.name());
  fail_errno(errno, "the socket for the key of a launch", "open");
}

void give_to_ranks(const HeldKey& held, const Fd& listener, int end) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + kLongestLaunch;
  std::set<int> have;
  for (int given = 0; given < held.count && Clock::now() < until;) {
    std::array<pollfd, 2> waits{pollfd{listener.get(), POLLIN, 0}, pollfd{end, POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), 1000) < 0 && errno != EINTR) return;
    std::uint8_t byte = 0;
    if (waits[1].revents != 0 && ::read(end, &byte, 1) <= 0) return;
    if (waits[0].revents == 0) continue;
    const Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket && answer(socket.get(), held, have)) ++given;
  }
}

KeyHolder::KeyHolder(HeldKey held) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, "a pipe", "make");
  Fd end(ends[0]);
  close_to_end_ = Fd(ends[1]);
  Fd listener = listen_for_ranks(held);
  thread_ = std::thread([held = std::move(held), listener = std::move(listener), end = std::move(end)] {
    give_to_ranks(held, listener, end.get());
  });
}

KeyHolder::~KeyHolder() {
  { const Fd closed = std::move(close_to_end_); }
  thread_.join();
}

LaunchKey ask_for_key(const std::string& holder, int rank, int ranks) {
  constexpr const char* kAgain = "start the training again: each launch has a key of its own";
  const Fd socket = make_socket();
  const Address address = address_of(holder);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) != 0)
    throw Error(ErrorKind::kIo, fmt::format("rank {}: nobody holds the key of its launch on this host", rank), kAgain);
  if (!is_own(socket.get()))
    throw Error(ErrorKind::kRefused, fmt::format("rank {}: another user offers the key of its launch", rank), kAgain);
  limit_waiting(socket.get());
  ByteWriter request(kRequest);
  request.u32(kVersion), request.u32(static_cast<std::uint32_t>(rank)), request.u32(static_cast<std::uint32_t>(ranks));
  std::uint8_t granted = kRefusal;
  if (!send_whole(socket.get(), request.bytes()) || !read_whole(socket.get(), &granted, 1))
    throw Error(ErrorKind::kIo, fmt::format("rank {}: who holds the key of its launch does not answer", rank), kAgain);
  if (granted != kGrant) {
    throw Error(ErrorKind::kRefused,
                fmt::format("rank {} of {} does not get the key of its launch: it has got it before, or is no rank of "
                            "this host",
                            rank, ranks),
                kAgain);
  }
  return read_held_key(socket.get()).key;
}

void hide_memory() {
  ::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace mlx::dist
