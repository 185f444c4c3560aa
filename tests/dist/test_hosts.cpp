// Names of hosts, what hosts say of themselves, and what a launcher hears of ranks.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/error.h"
#include "base/json.h"
#include "dist/host_facts.h"
#include "dist/hosts.h"
#include "dist/launch.h"
#include "dist/lifeline.h"
#include "dist/mpi_parameters.h"
#include "dist/network.h"
#include "dist/pulse.h"
#include "dist/watch.h"

namespace mlx::dist {
namespace {

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    return error.message;
  }
  return "";
}

TEST_CASE("hosts: this machine comes first, ranks are counted") {
  const std::vector<Host> afar = parse_hosts("b:2");
  REQUIRE(afar.size() == 2);
  CHECK(afar[0].here());
  CHECK(afar[0].ranks == 0);
  CHECK(ranks_on(afar) == 2);
  const std::vector<Host> hosts = parse_hosts("b:2,127.0.0.1:3,c.example");
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].here());
  CHECK(hosts[0].ranks == 3);
  CHECK(hosts[1].name == "b");
  CHECK(hosts[1].ranks == 2);
  CHECK(hosts[2].name == "c.example");
  CHECK(hosts[2].ranks == 1);
  CHECK(ranks_on(hosts) == 6);
  const std::vector<Host> same = parse_hostfile("# all\nb slots=2\n\n localhost:3 # here\nc.example\n", "f");
  REQUIRE(same.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(same[i].name == hosts[i].name);
    CHECK(same[i].ranks == hosts[i].ranks);
  }
}

TEST_CASE("hosts: what is none is refused by name") {
  for (const char* text :
       {"", "localhost,", ",", "localhost,-x", "localhost,a b", "localhost,a;b", "localhost,a/b", "localhost,u@a",
        "localhost,a:", "localhost,a:x", "localhost,a:-1", "localhost,a:4097", "localhost,a:99999999999999999999",
        "localhost:4000,a:4000", "a,a,localhost", "local,localhost"}) {
    CAPTURE(text);
    CHECK(error_of([&] { (void)parse_hosts(text); }) != "");
  }
  CHECK(error_of([] { (void)parse_hostfile("localhost\na b c\n", "f"); }).starts_with("f:2: 'c' is one word too many"));
  CHECK(error_of([] { (void)parse_hostfile("localhost\na slots=\n", "f"); }).starts_with("f:2: "));
  CHECK(error_of([] { (void)parse_hostfile(std::string("localhost\n\0\n", 12), "f"); }).starts_with("f:2: "));
}

TEST_CASE("hosts: mpirun starts other programs on other hosts") {
  Launch launch;
  launch.places = {{{"localhost", 1}, {"/bin/mlx", "train"}, {{"A", "1"}}}, {{"b", 2}, {"/opt/mlx", "rank"}, {}}};
  launch.ssh = "ssh -F x";
  const std::vector<std::string> argv = mpirun_command(launch);
  std::string line;
  for (const std::string& word : argv) line += word + "|";
  for (const auto& [name, value] : mpi_parameters())
    CHECK(line.find("|--mca|" + name + "|" + value + "|") != std::string::npos);
  CHECK(line.find("|plm_rsh_agent|ssh -F x|") != std::string::npos);
  CHECK(line.find("|--host|localhost:1|--np|1|") != std::string::npos);
  CHECK(line.find("|A=1|/bin/mlx|train|:|--host|b:2|--np|2|") != std::string::npos);
  CHECK(line.find("if_include") == std::string::npos);
  launch.network = "10.77.0.0/30";
  line.clear();
  for (const std::string& word : mpirun_command(launch)) line += word + "|";
  CHECK(line.find("|--mca|oob_tcp_if_include|10.77.0.0/30|--mca|btl_tcp_if_include|10.77.0.0/30|") !=
        std::string::npos);
  launch.places.pop_back();
  for (const std::string& word : mpirun_command(launch)) CHECK(word != "--host");
}

HostFacts facts() {
  HostFacts out;
  out.version = "1", out.program = "/bin/mlx", out.sources = "s", out.native = "n", out.portable = "p",
  out.isa = "avx512";
  out.address = "10.0.0.2", out.caller = "10.0.0.1";
  out.cache = "/c", out.cores = 4, out.memory = 100, out.disk = 1000, out.time = 5;
  return out;
}

TEST_CASE("hosts: facts go through JSON, and what is wrong in them is said") {
  const HostFacts own = facts();
  const HostFacts back = facts_from_json(to_json(own), "b");
  CHECK(canonical(to_json(back)) == canonical(to_json(own)));
  Json no_cores = to_json(own);
  no_cores["cores"] = 0;
  CHECK_THROWS_AS((void)facts_from_json(no_cores, "b"), Error);
  CHECK_THROWS_AS((void)facts_from_json(Json::array(), "b"), Error);
  CHECK(obstacles(own, own, {.data = 1000}).empty());
  CHECK(obstacles(own, own, {.data = 1001}).size() == 1);
  HostFacts other = own;
  other.native = "m";
  CHECK(obstacles(own, other, {.portable = true}).empty());
  REQUIRE(obstacles(own, other, {}).size() == 1);
  CHECK(obstacles(own, other, {})[0].hint.find("--numerics portable") != std::string::npos);
  other.sources = "t", other.mpi = "no orted";
  CHECK(obstacles(own, other, {.portable = true}).size() == 2);
}

TEST_CASE("hosts: the network of addresses is the smallest that has them all") {
  using Addresses = std::vector<std::string>;
  CHECK(common_network(Addresses{"10.77.0.1", "10.77.0.2", "10.77.0.3"}) == "10.77.0.0/30");
  CHECK(common_network(Addresses{"10.77.0.4", "10.77.1.2"}) == "10.77.0.0/23");
  CHECK(common_network(Addresses{"192.168.1.9"}) == "192.168.1.9/32");
  CHECK(common_network(Addresses{"10.255.0.1", "10.1.0.1"}) == "10.0.0.0/8");
  for (const Addresses& none : {Addresses{}, Addresses{"10.0.0.1", "11.0.0.1"}, Addresses{"10.0.0.1", "fe80::1"},
                                Addresses{"10.0.0.1", ""}, Addresses{"0.0.0.1", "255.0.0.1"}})
    CHECK(common_network(none) == "");
  CHECK(is_own_address("127.0.0.1"));
  CHECK_FALSE(is_own_address("203.0.113.7"));
  CHECK_FALSE(is_own_address(""));
}

// What people would read: "rank 1: text|".
class Heard final : public RanksListener {
 public:
  void hear_beat(const Beat&, Clock::time_point) override { ++beats; }
  void hear_line(int rank, std::string_view line) override {
    said += (rank < 0 ? "" : "rank " + std::to_string(rank) + ": ") + std::string(line) + "|";
  }
  void hear_stage(const Stage& stage) override { said += "[" + stage.name + "]"; }
  void hear_run(const std::string& run) override { said += "<" + run + ">"; }

  std::string said;
  int beats = 0;
};

// The numbers of a beat from UNITS on.
const std::string kCounted = "40 1000 2.5 0.25 0.5 3.5 images ";

TEST_CASE("hosts: a beat says where a rank is, what it has done, and its end") {
  const std::unique_ptr<Communicator> alone = lone_rank();
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  alone->activity().step = 12;
  alone->activity().units = 40;
  alone->activity().bytes_sent = 1000;
  alone->activity().waiting = 0.5;
  alone->activity().unit = "images";
  { const Pulse pulse(*alone, ends[1]); }
  ::close(ends[1]);
  std::array<char, 1024> bytes{};
  const ssize_t count = ::read(ends[0], bytes.data(), bytes.size());
  ::close(ends[0]);
  REQUIRE(count > 0);
  const std::string text(bytes.data(), static_cast<std::size_t>(count));
  const std::size_t line = text.find('\n');
  const std::optional<Beat> first = parse_beat(text.substr(0, line)),
                            last = parse_beat(text.substr(line + 1, text.size() - line - 2));
  REQUIRE(first);
  REQUIRE(last);
  CHECK(first->step == 12);
  CHECK(first->waits_for == -1);
  CHECK(first->units == 40);
  CHECK(first->bytes_sent == 1000);
  CHECK(first->waiting == 0.5);
  CHECK(first->cpu > 0);
  CHECK(first->unit == "images");
  CHECK(first->name == alone->name());
  CHECK(!first->ended);
  CHECK(last->ended);
  CHECK(parse_beat("\x1emlx-rank 0 alive 1 -1 " + kCounted + "x"));
  for (const char* other : {"mlx-rank 0 alive 1 -1 ", "\x1emlx-rank -1 alive 1 -1 ", "\x1emlx-rank 0 dead 1 -1 ",
                            "\x1emlx-rank 99999999999999999999 alive 1 -1 ", "\x1emlx-rank 0 alive 1 -1 x "})
    CHECK(!parse_beat(other + kCounted + "x"));
  for (const char* other : {"", "\x1emlx-rank ", "\x1emlx-rank 0 alive 1 -1 x"}) CHECK(!parse_beat(other));
}

TEST_CASE("hosts: a watch tells people's lines, mpirun's and beats apart, in whatever pieces they come") {
  const std::string ruler(74, '-');
  const std::string all =
      "warning: x\n\x1emlx-rank 1 alive 7 0 " + kCounted + "rank 1 on b\n" + said_line(1, "y") +
      run_line("0123456789abcdef") + stage_line({false, 1, 2, "steps", "s", "n"}) + "\x1emlx-later 1\n" + ruler +
      "\nWARNING: Open MPI failed to TCP connect to a peer: a connection\n" + ruler +
      "\n[b:123] 2 more processes have sent help message\nmpirun: Forwarding signal 10 to job\n[1/2] is no note\n" +
      ruler + "\nmpirun noticed that process rank 1 with PID 0 on node b exited on signal 9 (Killed).\n" + ruler +
      "\nlast";
  const Watch::Clock::time_point now{};
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, all.size()}) {
    Heard heard;
    Watch watch(heard);
    for (std::size_t at = 0; at < all.size(); at += piece) watch.take(std::string_view(all).substr(at, piece), now);
    watch.finish();
    CHECK(heard.said == "warning: x|rank 1: y|<0123456789abcdef>[s][1/2] is no note|last|");
    CHECK(heard.beats == 1);
    CHECK(watch.why() == "rank 1 on b was ended by signal 9");
    CHECK(watch.lost(now + Watch::kSilence - std::chrono::seconds(1)) == "");
    CHECK(watch.lost(now + Watch::kSilence) == "rank 1 on b has said nothing for 8 s; at step 7 it waited for rank 0");
  }
}

TEST_CASE("hosts: a lost daemon is a lost host, and what follows from it is no reason") {
  const std::string ruler(74, '-');
  Heard heard;
  Watch watch(heard);
  const auto message = [&](const std::string& text) {
    watch.take(ruler + "\n" + text + "\n" + ruler + "\n", Watch::Clock::time_point());
  };
  message("An MPI communication peer process has unexpectedly disconnected.");
  CHECK(watch.why() == "");
  message(
      "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node home\n"
      "  Remote daemon: [[1,0],2] on node b\n\nThis is usually due to a failure of the network.");
  CHECK(watch.why() == "the connection to b is lost");
}

TEST_CASE("hosts: a connection that repeats itself is in vain, if it is one of these") {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000009     0        0 111 1 0 100 0 0 10 "
      "0\n"
      "   1: 0202000A:8F90 0102000A:0016 01 00000040:00000000 01:00000A2E 00000006     0        0 222 2 0 20 4 30 10 "
      "-1\n"
      "   2: 0202000A:8F91 0102000A:0016 01 00000040:00000000 01:0000002E 00000005     0        0 333 2 0 20 4 30 10 "
      "-1\n"
      "   3: too short\n";
  CHECK(sends_in_vain(table, {"9", "222"}));
  CHECK(!sends_in_vain(table, {"111", "333"}));
  CHECK(!sends_in_vain(table, {}));
  CHECK(!sends_in_vain("", {"222"}));
}

TEST_CASE("hosts: of silent ranks the one that fell silent first is lost, and none that has ended") {
  Heard heard;
  Watch watch(heard);
  const Watch::Clock::time_point now{};
  watch.take(
      "\x1emlx-rank 0 ended 7 -1 " + kCounted + "rank 0 on a\n\x1emlx-rank 2 alive 0 -1 " + kCounted + "rank 2 on c\n",
      now);
  watch.take("\x1emlx-rank 1 alive 7 2 " + kCounted + "rank 1 on b\n", now + std::chrono::seconds(1));
  CHECK(watch.lost(now + Watch::kSilence * 2)
            .starts_with("rank 2 on c has said nothing for 8 s; at step 0 it read the data"));
  CHECK(watch.why() == "");
}

}  // namespace
}  // namespace mlx::dist
