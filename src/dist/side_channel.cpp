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

// Those that other machines may reach.
std::vector<std::string> own_addresses() {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* each = all; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
    const in_addr address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
    std::array<char, INET_ADDRSTRLEN> text{};
    constexpr std::uint32_t kLoopback = 127;
    if (ntohl(address.s_addr) >> 24 == kLoopback) continue;
    if (::inet_ntop(AF_INET, &address, text.data(), text.size())) out.emplace_back(text.data());
  }
  return out;
}

Fd new_socket() {
  return Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(point.port);
  SideLine line(new_socket());
  if (!line.is_open() || ::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return std::nullopt;
  if (::connect(line.socket(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS)
    return std::nullopt;
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

Meeting::Meeting(const std::string& host) : listener_(new_socket()) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  if (!listener_ || ::bind(listener_.get(), at, size) != 0 || ::listen(listener_.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener_.get(), at, &size) != 0)
    fail_errno(errno, "a socket for the other ranks", "listen at");
  random_bytes(point_.token);
  point_.port = ntohs(address.sin_port);
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
  if (host == point.host) addresses.insert(addresses.begin(), "127.0.0.1");
  for (const std::string& address : addresses) {
    if (ends()) break;
    if (std::optional<SideLine> line = reach_at(point, rank, address)) return line;
  }
  return std::nullopt;
}

}  // namespace mlx::dist
