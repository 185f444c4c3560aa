// What every communicator keeps: messages arrive whole and in order, whatever their size. The same checks run over
// threads here, and over MPI if it has started this program (the test dist_mpi), sealed and not.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "borrowed.h"
#include "dist/clock_offset.h"
#include "dist/collectives.h"
#include "dist/mpi.h"
#include "dist/replicas.h"
#include "dist/sealed.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

Bytes message(int from, int to, std::size_t size, int number) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(31 * from + 17 * to + 5 * number));
  return bytes;
}

// Throws, because doctest's own checks are not for threads.
void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// Every rank sends several messages of each size to every other, and waits for them in the reverse order.
void messages_arrive(Communicator& ranks) {
  const int own = ranks.rank();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, (std::size_t{5} << 20) + 3}) {
    const int count = size > 4097 ? 2 : 5;
    std::vector<Communicator::Transfer> transfers;
    std::vector<Bytes> sent, received;
    sent.reserve(100), received.reserve(100);
    for (int other = 0; other < ranks.ranks(); ++other) {
      for (int i = 0; other != own && i < count; ++i) {
        const int tag = i % 2;
        received.emplace_back(size);
        transfers.push_back(ranks.receive(other, tag, received.back().data(), size));
        sent.push_back(message(own, other, size, i));
        transfers.push_back(ranks.send(other, tag, sent.back().data(), size));
      }
    }
    std::reverse(transfers.begin(), transfers.end());
    ranks.wait(transfers);
    std::size_t at = 0;
    for (int other = 0; other < ranks.ranks(); ++other)
      for (int i = 0; other != own && i < count; ++i)
        require(received[at++] == message(other, own, size, i), "another message arrived");
  }
}

void collectives_agree(Communicator& ranks) {
  for (int root = 0; root < ranks.ranks(); ++root) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{100'000}}) {
      Bytes bytes;
      if (ranks.rank() == root) bytes = message(root, 0, size, 1);
      broadcast(ranks, root, bytes);
      require(bytes == message(root, 0, size, 1), "a broadcast brought other bytes");
    }
  }
  const std::vector<Bytes> all = all_gather(ranks, message(ranks.rank(), 0, static_cast<std::size_t>(ranks.rank()), 2));
  for (int rank = 0; rank < ranks.ranks(); ++rank)
    require(all[static_cast<std::size_t>(rank)] == message(rank, 0, static_cast<std::size_t>(rank), 2), "all_gather");
  barrier(ranks);
}

// Ranks that seal what `ranks` carries. The same key for all.
std::unique_ptr<Communicator> sealed(Communicator& ranks) {
  LaunchKey key{{1, 2, 3}, Secret(32), {{"here", ranks.ranks()}}};
  return sealed_ranks(std::make_unique<Borrowed>(ranks), key);
}

}  // namespace

TEST_CASE("messages of any size arrive whole and in order, between any ranks") {
  for (const int count : {1, 2, 3, 4, 7}) {
    CAPTURE(count);
    CHECK_NOTHROW(on_ranks(count, messages_arrive));
    CHECK_NOTHROW(on_ranks(count, collectives_agree));
    if (count > 4) continue;
    CHECK_NOTHROW(on_ranks(count, [](Communicator& ranks) { messages_arrive(*sealed(ranks)); }));
    CHECK_NOTHROW(on_ranks(count, [](Communicator& ranks) { collectives_agree(*sealed(ranks)); }));
  }
}

TEST_CASE("advance() says which messages are done, also if others are not") {
  for (const bool seals : {false, true}) {
    on_ranks(2, [seals](Communicator& bare) {
      const std::unique_ptr<Communicator> own = seals ? sealed(bare) : std::make_unique<Borrowed>(bare);
      Communicator& ranks = *own;
      char byte = 0;
      if (ranks.rank() == 1) {
        Communicator::Transfer go = ranks.send(0, 0, &byte, 1);
        ranks.wait({&go, 1});
        go = ranks.receive(0, 2, &byte, 1);
        ranks.wait({&go, 1});
        go = ranks.send(0, 1, &byte, 1);
        ranks.wait({&go, 1});
        return;
      }
      std::array transfers{ranks.receive(1, 0, &byte, 1), ranks.receive(1, 1, &byte, 1)};
      while (transfers[0].id != 0) require(!ranks.advance(transfers), "the second cannot have arrived");
      Communicator::Transfer go = ranks.send(1, 2, &byte, 1);
      while (!ranks.advance(transfers)) continue;
      ranks.wait({&go, 1});
      require(ranks.advance(transfers), "messages that are done stay done");
    });
  }
}

TEST_CASE("who waits for a rank that is gone, or that sends another size, gets an error that names it") {
  CHECK_THROWS_WITH_AS(on_ranks(2,
                                [](Communicator& ranks) {
                                  if (ranks.rank() == 1) return;
                                  char byte = 0;
                                  Communicator::Transfer transfer = ranks.receive(1, 0, &byte, 1);
                                  ranks.wait({&transfer, 1});
                                }),
                       "rank 1 is gone", Error);
  CHECK_THROWS_WITH_AS(on_ranks(2,
                                [](Communicator& ranks) {
                                  std::array<char, 4> bytes{};
                                  Communicator::Transfer transfer = ranks.rank() == 1
                                                                        ? ranks.send(0, 3, bytes.data(), 4)
                                                                        : ranks.receive(1, 3, bytes.data(), 3);
                                  ranks.wait({&transfer, 1});
                                }),
                       "rank 1 sent 4 bytes instead of 3", Error);
}

TEST_CASE("bug: a message was written into the memory of a rank that was gone") {
  std::vector<std::unique_ptr<Communicator>> ranks = local_ranks(2);
  Bytes memory(4, 0);
  ranks[1]->receive(0, 0, memory.data(), memory.size());
  ranks[1].reset();
  const Bytes sent(4, 9);
  Communicator::Transfer transfer = ranks[0]->send(1, 0, sent.data(), sent.size());
  ranks[0]->wait({&transfer, 1});
  CHECK_EQ(memory, Bytes(4, 0));
}

TEST_CASE("MPI: the same over processes") {
  const int started = ranks_started(process_environment());
  if (started == 1) return;  // dist_mpi runs it
  const std::unique_ptr<Communicator> ranks = join_ranks(started);
  CHECK_EQ(ranks->ranks(), started);
  CHECK_NOTHROW(messages_arrive(*ranks));
  CHECK_NOTHROW(collectives_agree(*ranks));
  {
    const std::unique_ptr<Communicator> over_mpi = sealed(*ranks);
    CHECK_NOTHROW(messages_arrive(*over_mpi));
    CHECK_NOTHROW(collectives_agree(*over_mpi));
  }
  // bug: a message that was shorter than the receiver's memory passed.
  std::array<char, 8> bytes{};
  if (ranks->rank() < 2) {
    Communicator::Transfer transfer =
        ranks->rank() == 1 ? ranks->send(0, 3, bytes.data(), 4) : ranks->receive(1, 3, bytes.data(), 8);
    if (ranks->rank() == 1)
      CHECK_NOTHROW(ranks->wait({&transfer, 1}));
    else
      CHECK_THROWS_WITH_AS(ranks->wait({&transfer, 1}), doctest::Contains("lost rank 1: it sent 4 bytes instead of 8"),
                           Error);
  }
}

TEST_CASE("ranks are those that mpirun or srun says it has started") {
  const auto started = [](std::vector<std::pair<std::string, std::string>> variables) {
    Environment environment;
    environment.variable = [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
      for (const auto& [key, value] : variables)
        if (key == name) return value;
      return std::nullopt;
    };
    return ranks_started(environment);
  };
  CHECK_EQ(started({}), 1);
  CHECK_EQ(started({{"OMPI_COMM_WORLD_SIZE", "4"}}), 4);
  CHECK_EQ(started({{"OMPI_COMM_WORLD_SIZE", "1"}}), 1);
  CHECK_EQ(started({{"OMPI_COMM_WORLD_SIZE", "many"}}), 1);
  CHECK_EQ(started({{"PMI_SIZE", "3"}}), 1);  // of another MPI
  CHECK_EQ(started({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}}), 3);
  CHECK_EQ(started({{"SLURM_STEP_NUM_TASKS", "3"}}), 1);  // srun --mpi=none
  CHECK_EQ(started({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), 1);
}

TEST_CASE("the root gathers the bytes of all, and clocks of one machine are the same") {
  on_ranks(3, [](Communicator& ranks) {
    const std::vector<Bytes> all = gather(ranks, 1, as_bytes(std::string(static_cast<std::size_t>(ranks.rank()), 'x')));
    require(all.size() == (ranks.rank() == 1 ? 3U : 0U), "another rank gathered");
    for (std::size_t i = 0; i < all.size(); ++i) require(all[i].size() == i, "bytes of another rank");
    require(std::abs(clock_offset(ranks)) < 0.5, "the clocks are apart");
  });
}

TEST_CASE("replicas: the rank with other bits is named by all") {
  const auto said = [](int count, int faulty) {
    std::vector<std::string> messages(static_cast<std::size_t>(count));
    on_ranks(count, [&](Communicator& ranks) {
      const std::string has = ranks.rank() == faulty ? "other" : "same";
      try {
        check_replicas(ranks, mlx::Digest::of(mlx::as_bytes(has)), 40);
      } catch (const mlx::Error& error) {
        CHECK(error.kind == mlx::ErrorKind::kCorrupt);
        messages[static_cast<std::size_t>(ranks.rank())] = error.message;
      }
    });
    for (const std::string& message : messages) CHECK(message == messages[0]);
    return messages[0];
  };
  CHECK(said(3, -1).empty());
  CHECK(said(3, 1).starts_with("after step 40 rank 1"));
  CHECK(said(3, 1).ends_with(" had other bits than the other ranks"));
  CHECK(said(2, 1).starts_with("after step 40 these ranks had different bits: rank 0"));
}
