// TCP connections from all ranks to the first, beside their MPI, for what must get through when MPI does not: that a
// rank lives (mutual_watch.h). The first rank's addresses and a random token go to the others by MPI; both sides of a
// connection prove that they have the token, which itself is never sent over it. Lines of text are not encrypted.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"

namespace mlx::dist {

// What the first rank tells the others by MPI.
struct MeetingPoint {
  std::array<std::uint8_t, 32> token{};
  std::uint16_t port = 0;
  std::string host;                    // ranks there may also use its loopback
  std::vector<std::string> addresses;  // numeric
};
Bytes encode(const MeetingPoint& point);
MeetingPoint decode_meeting_point(ByteView bytes);  // kCorrupt

// One side of a connection, whose socket never waits.
class SideLine {
 public:
  explicit SideLine(Fd socket) : socket_(std::move(socket)) {}
  int socket() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  void close() { socket_ = Fd(); }
  // Sends all of it or closes the connection; leaves it out while the other side takes nothing.
  void send(std::string_view bytes);
  // Takes what has come. Closes it at its end, or if a line is too long.
  void receive();
  std::optional<std::string> next();                   // a line that has come, with its end
  std::optional<std::string> take(std::size_t count);  // so many bytes, once they have come

 private:
  Fd socket_;
  std::string in_;
};

// The first rank's side.
class Meeting {
 public:
  // Listens at all addresses of this machine, at a free port. Throws kIo if it cannot.
  explicit Meeting(const std::string& host);
  const MeetingPoint& point() const { return point_; }
  int socket() const { return listener_.get(); }

  // A connection whose rank is not known yet.
  struct Guest {
    SideLine line;
    std::array<std::uint8_t, 32> nonce{};
    std::chrono::steady_clock::time_point since;
  };
  std::optional<Guest> accept() const;  // one that waits
  // The rank, 1 to ranks - 1, once it has proved to have the token; it then gets the proof of this side. A guest that
  // proves something else is closed.
  std::optional<int> welcome(Guest& guest, int ranks) const;

 private:
  MeetingPoint point_;
  Fd listener_;  // after its port
};

// Another rank's side: tries one address after another, some seconds each. Nullopt if none leads to the first rank, or
// once `ends` is true. `host`: its own. It waits, so a thread of its own calls it.
std::optional<SideLine> reach(const MeetingPoint& point, int rank, const std::string& host,
                              const std::function<bool()>& ends);

}  // namespace mlx::dist
