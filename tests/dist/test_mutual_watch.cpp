// Ranks that watch each other, and the connections for it. Ranks are threads here.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "dist/mutual_watch.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

// Lets the first rank's side see to its guests until one is known, or gone.
std::optional<int> welcomed(const Meeting& meeting, int ranks) {
  std::optional<Meeting::Guest> guest;
  for (int turn = 0; turn < 400; ++turn) {
    if (!guest) guest = meeting.accept();
    if (guest) {
      const std::optional<int> rank = meeting.welcome(*guest, ranks);
      if (rank || !guest->line.is_open()) return rank;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return std::nullopt;
}

bool reaches(const MeetingPoint& point, int rank, const Meeting& meeting, std::optional<int> expected) {
  std::optional<SideLine> line;
  std::thread other([&] { line = reach(point, rank, point.host, [] { return false; }); });
  CHECK(welcomed(meeting, 4) == expected);
  other.join();
  return line.has_value();
}

}  // namespace

TEST_CASE("side channel: a rank that has the token is known by its number, and no other") {
  const Meeting meeting("here");
  MeetingPoint point = decode_meeting_point(encode(meeting.point()));
  CHECK(point.token == meeting.point().token);
  CHECK(point.addresses == meeting.point().addresses);
  point.addresses.clear();  // by the loopback alone
  CHECK(reaches(point, 3, meeting, 3));
  CHECK_FALSE(reaches(point, 4, meeting, std::nullopt));
  CHECK_FALSE(reaches(point, 0, meeting, std::nullopt));
  MeetingPoint other = point;
  other.token[5] ^= 1;
  CHECK_FALSE(reaches(other, 3, meeting, std::nullopt));
  other = point;
  other.host = "elsewhere";
  CHECK_FALSE(reach(other, 1, "here", [] { return false; }));  // no address is left
  Bytes cut = encode(point);
  cut.pop_back();
  CHECK_THROWS_AS(decode_meeting_point(cut), Error);
}

// bug: ranks whose network has no IPv4 never met.
TEST_CASE("side channel: an address of IPv6 leads there too") {
  const Meeting meeting("here");
  MeetingPoint point = meeting.point();
  std::ifstream interfaces("/proc/net/if_inet6");
  if (std::string first; !(interfaces >> first)) {
    MESSAGE("skipped: this machine has no IPv6");
    return;
  }
  point.host = "elsewhere";
  point.addresses = {"not an address", "::1"};
  std::optional<SideLine> line;
  std::thread other([&] { line = reach(point, 2, "here", [] { return false; }); });
  CHECK(welcomed(meeting, 4) == 2);
  other.join();
  CHECK(line);
}

TEST_CASE("side channel: lines come whole, and one that is too long ends the connection") {
  const Meeting meeting("here");
  MeetingPoint point = meeting.point();
  point.addresses.clear();
  std::optional<SideLine> line;
  std::thread other([&] { line = reach(point, 1, point.host, [] { return false; }); });
  std::optional<Meeting::Guest> guest;
  std::optional<int> rank;
  for (int turn = 0; turn < 400 && !rank; ++turn) {
    if (!guest) guest = meeting.accept();
    if (guest) rank = meeting.welcome(*guest, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  other.join();
  REQUIRE(line);
  const auto received = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    guest->line.receive();
    return guest->line.next();
  };
  line->send("one\ntw");
  CHECK(received() == "one\n");
  CHECK(received() == std::nullopt);
  line->send("o\n");
  CHECK(received() == "two\n");
  line->send(std::string(10000, 'x'));
  CHECK(received() == std::nullopt);
  CHECK_FALSE(guest->line.is_open());
}

TEST_CASE("mutual watch: ranks that end are not lost, whoever ends first") {
  std::atomic<int> lost = 0, unwatched = 0;
  on_ranks(4, [&](Communicator& own) {
    const MutualWatch watch(own, {[&](const std::string&) { ++lost; }, [] {}, [] { return false; },
                                  [&](const std::string&) { ++unwatched; }});
    std::this_thread::sleep_for(std::chrono::milliseconds(own.rank() == 0 ? 300 : 600 * own.rank()));
  });
  CHECK(lost == 0);
  CHECK(unwatched == 0);
}
