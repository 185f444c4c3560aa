// The first rank sends a nonce of 32 bytes. The other answers with its rank (u32), a nonce of its own and the HMAC of
// both under the token; then the first proves itself in the same way. Afterwards both send lines.
#include "dist/side_channel.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/crypto.h"
#include "base/error.h"

namespace mlx::dist {
namespace {

constexpr std::size_t kNonce = 32, kProof = 32, kLongestLine = 4096;
constexpr std::chrono::seconds kAttempt{3};  // to reach one address
constexpr std::string_view kOther = "mlx rank", kFirst = "mlx first";

// What a side proves: which one it is, and all that is particular to this connection.
std::string proof_of(ByteView token, std::string_view side, std::string_view nonce, std::string_view answer) {
  std::string message(side);
  message.append(nonce).append(answer);
  const Digest digest = hmac_sha256(token, as_bytes(message));
  return std::string(as_text(digest.bytes));
}

bool proves(const std::string& given, const std::string& expected) {
  return equal_in_constant_time(as_bytes(given), as_bytes(expected));
}

std::string text_of_nonce(const std::array<std::uint8_t, kNonce>& nonce) {
  return std::string(as_text(nonce));
}

// Numeric; "" if it is of another family, or only this machine may reach it, or only one that is told the interface.
std::string address_for_others(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bits = nullptr;
  if (address && address->sa_family == AF_INET) {
    constexpr std::uint32_t kLoopback = 127;
    const in_addr& of = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    if (ntohl(of.s_addr) >> 24 != kLoopback) bits = &of;
  } else if (address && address->sa_family == AF_INET6) {
    const in6_addr& of = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LOOPBACK(&of) && !IN6_IS_ADDR_LINKLOCAL(&of)) bits = &of;
  }
  if (!bits || !::inet_ntop(address->sa_family, bits, text.data(), text.size())) return "";
  return text.data();
}

// Those of IPv4 come first: most networks that have both are built for them.
std::vector<std::string> own_addresses() {
  std::vector<std::string> out, later;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* each = all; each; each = each->ifa_next) {
    const std::string address = address_for_others(each->ifa_addr);
    if (!address.empty()) (each->ifa_addr->sa_family == AF_INET ? out : later).push_back(address);
  }
  out.insert(out.end(), later.begin(), later.end());
  return out;
}

Fd new_socket(int family) {
  return Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// An address with its port, or with port 0 any of this machine's.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  std::uint16_t port() const {
    return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                               : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  }
};

// `address`: numeric. Nullopt if it is none.
std::optional<SocketAddress> socket_address(const std::string& address, std::uint16_t port) {
  SocketAddress out;
  auto* const four = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (::inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET, four->sin_port = htons(port), out.size = sizeof *four;
  } else if (out = {}; ::inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6, six->sin6_port = htons(port), out.size = sizeof *six;
  } else {
    return std::nullopt;
  }
  return out;
}

// At a free port of all this machine's addresses of the family; of IPv6 also those of IPv4. Not open if it cannot.
Fd listen_at_all(int family, std::uint16_t& port) {
  SocketAddress address = *socket_address(family == AF_INET6 ? "::" : "0.0.0.0", 0);
  Fd out = new_socket(family);
  const int off = 0;
  if (out && family == AF_INET6 && ::setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) return {};
  if (!out || ::bind(out.get(), address.get(), address.size) != 0 || ::listen(out.get(), SOMAXCONN) != 0 ||
      ::getsockname(out.get(), address.get(), &address.size) != 0)
    return {};
  port = address.port();
  return out;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool wait_for(int socket, short what, std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  pollfd one{socket, what, 0};
  return left.count() > 0 && ::poll(&one, 1, static_cast<int>(left.count())) > 0;
}

// So many bytes of the other side; nullopt if they do not come in time.
std::optional<std::string> await(SideLine& line, std::size_t count, std::chrono::steady_clock::time_point until) {
  for (;;) {
    if (std::optional<std::string> bytes = line.take(count)) return bytes;
    if (!line.is_open() || !wait_for(line.socket(), POLLIN, until)) return std::nullopt;
    line.receive();
  }
}

std::optional<SideLine> reach_at(const MeetingPoint& point, int rank, const std::string& address) {
  const auto until = std::chrono::steady_clock::now() + kAttempt;
  std::optional<SocketAddress> to = socket_address(address, point.port);
  if (!to) return std::nullopt;
  SideLine line(new_socket(to->storage.ss_family));
  if (!line.is_open()) return std::nullopt;
  if (::connect(line.socket(), to->get(), to->size) != 0 && errno != EINPROGRESS) return std::nullopt;
  if (!wait_for(line.socket(), POLLOUT, until)) return std::nullopt;
  send_at_once(line.socket());
  const std::optional<std::string> nonce = await(line, kNonce, until);
  if (!nonce) return std::nullopt;
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(rank));
  std::array<std::uint8_t, kNonce> own{};
  random_bytes(own);
  out.raw(own);
  const std::string answer(as_text(out.bytes()));
  line.send(answer + proof_of(point.token, kOther, *nonce, answer));
  const std::optional<std::string> proof = await(line, kProof, until);
  if (!proof || !proves(*proof, proof_of(point.token, kFirst, *nonce, answer))) return std::nullopt;
  return line;
}

}  // namespace

Bytes encode(const MeetingPoint& point) {
  ByteWriter out;
  out.raw(point.token);
  out.u16(point.port);
  out.sized(as_bytes(point.host));
  out.u16(static_cast<std::uint16_t>(point.addresses.size()));
  for (const std::string& address : point.addresses) out.sized(as_bytes(address));
  return out.take();
}

MeetingPoint decode_meeting_point(ByteView bytes) {
  ByteReader in(bytes, "where ranks meet");
  MeetingPoint out;
  std::ranges::copy(in.take(out.token.size()), out.token.begin());
  out.port = in.u16();
  out.host = as_text(in.sized());
  for (int left = in.u16(); left > 0; --left) out.addresses.emplace_back(as_text(in.sized()));
  in.expect_end();
  return out;
}

void SideLine::send(std::string_view bytes) {
  if (!is_open()) return;
  const ssize_t sent = ::send(socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return;
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  close();
}

void SideLine::receive() {
  std::array<char, 4096> bytes{};
  while (is_open()) {
    const ssize_t got = ::recv(socket(), bytes.data(), bytes.size(), 0);
    if (got > 0) in_.append(bytes.data(), static_cast<std::size_t>(got));
    if (got > 0 && in_.size() <= 4 * kLongestLine) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    close();
  }
}

std::optional<std::string> SideLine::next() {
  const std::size_t end = in_.find('\n');
  if (end == std::string::npos) {
    if (in_.size() > kLongestLine) close();
    return std::nullopt;
  }
  return take(end + 1);
}

std::optional<std::string> SideLine::take(std::size_t count) {
  if (in_.size() < count) return std::nullopt;
  std::string out = in_.substr(0, count);
  in_.erase(0, count);
  return out;
}

Meeting::Meeting(const std::string& host) : listener_(listen_at_all(AF_INET6, point_.port)) {
  if (!listener_) listener_ = listen_at_all(AF_INET, point_.port);  // a machine without IPv6
  if (!listener_) fail_errno(errno, "a socket for the other ranks", "listen at");
  random_bytes(point_.token);
  point_.host = host;
  point_.addresses = own_addresses();
}

std::optional<Meeting::Guest> Meeting::accept() const {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return std::nullopt;
  send_at_once(socket.get());
  Guest out{SideLine(std::move(socket)), {}, std::chrono::steady_clock::now()};
  random_bytes(out.nonce);
  out.line.send(text_of_nonce(out.nonce));
  return out;
}

std::optional<int> Meeting::welcome(Guest& guest, int ranks) const {
  guest.line.receive();
  constexpr std::size_t kAnswer = sizeof(std::uint32_t) + kNonce;
  const std::optional<std::string> said = guest.line.take(kAnswer + kProof);
  if (!said) return std::nullopt;
  const std::string answer = said->substr(0, kAnswer), nonce = text_of_nonce(guest.nonce);
  const std::uint32_t rank = load_little_endian<std::uint32_t>(as_bytes(answer).data());
  if (!proves(said->substr(kAnswer), proof_of(point_.token, kOther, nonce, answer)) || rank < 1 ||
      rank >= static_cast<std::uint32_t>(ranks)) {
    guest.line.close();
    return std::nullopt;
  }
  guest.line.send(proof_of(point_.token, kFirst, nonce, answer));
  return static_cast<int>(rank);
}

std::optional<SideLine> reach(const MeetingPoint& point, int rank, const std::string& host,
                              const std::function<bool()>& ends) {
  std::vector<std::string> addresses = point.addresses;
  if (host == point.host) addresses.insert(addresses.begin(), {"127.0.0.1", "::1"});
  for (const std::string& address : addresses) {
    if (ends()) break;
    if (std::optional<SideLine> line = reach_at(point, rank, address)) return line;
  }
  return std::nullopt;
}

}  // namespace mlx::dist
