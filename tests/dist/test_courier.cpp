// Messages that another thread sees to, while their owner does something else.
#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "borrowed.h"
#include "dist/courier.h"
#include "dist/sealed.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

constexpr std::size_t kCarried = (std::size_t{1} << 20) + 5;

// Each rank sends the next several messages, and has one on its way while it uses another.
void pass_round(Communicator& ranks, bool in_background) {
  const int next = (ranks.rank() + 1) % ranks.ranks(), last = (ranks.rank() + ranks.ranks() - 1) % ranks.ranks();
  Courier courier(ranks, in_background);
  for (int round = 0; round < 2; ++round) {
    std::vector<Bytes> to(3, Bytes(kCarried)), from(3, Bytes(kCarried));
    std::vector<Courier::Ticket> arrived, sent;
    arrived.push_back(courier.receive(last, 1, from[0].data(), kCarried));
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::ranges::fill(to[i], static_cast<std::uint8_t>(10 * ranks.rank() + static_cast<int>(i)));
      sent.push_back(courier.send(next, 1, to[i].data(), kCarried));
      courier.poll();
      courier.wait(arrived[i]);
      if (i + 1 < to.size()) arrived.push_back(courier.receive(last, 1, from[i + 1].data(), kCarried));
      if (from[i] != Bytes(kCarried, static_cast<std::uint8_t>(10 * last + static_cast<int>(i))))
        throw std::runtime_error("other bytes");
      courier.wait(arrived[i]);  // is done
    }
    courier.idle();
    for (const Courier::Ticket ticket : sent) courier.wait(ticket);
  }
}

}  // namespace

TEST_CASE("a courier's messages arrive, with a thread of its own or without, sealed or not") {
  for (const bool in_background : {false, true}) {
    CAPTURE(in_background);
    CHECK_NOTHROW(on_ranks(3, [&](Communicator& ranks) { pass_round(ranks, in_background); }));
    LaunchKey key = make_launch_key({{"a", 1}});
    key.hosts.push_back({"b", 1});
    CHECK_NOTHROW(on_ranks(2, [&](Communicator& ranks) {
      const std::unique_ptr<Communicator> sealed = sealed_ranks(std::make_unique<Borrowed>(ranks), key);
      pass_round(*sealed, in_background);
    }));
  }
}

TEST_CASE("a courier tells whoever waits that the other rank is gone, and leaves what nobody waits for") {
  for (const bool in_background : {false, true}) {
    CAPTURE(in_background);
    CHECK_NOTHROW(on_ranks(2, [&](Communicator& ranks) {
      if (ranks.rank() == 1) return;
      Bytes bytes(8);
      Courier courier(ranks, in_background);
      const Courier::Ticket ticket = courier.receive(1, 0, bytes.data(), bytes.size());
      bool refused = false;
      try {
        courier.wait(ticket);
      } catch (const Error& error) {
        refused = error.kind == ErrorKind::kIo;
      }
      if (!refused) throw std::runtime_error("it waited, and nobody was there");
    }));
    CHECK_NOTHROW(on_ranks(2, [&](Communicator& ranks) {
      Bytes bytes(8);
      Courier courier(ranks, in_background);
      if (ranks.rank() == 0) (void)courier.receive(1, 0, bytes.data(), bytes.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }));
  }
}
