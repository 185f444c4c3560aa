// Encryption between ranks: whatever is done to a frame on its way ends in an error that names both ranks, nothing can
// be read on the way, and a key is given once to each rank of its user.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "base/error.h"
#include "borrowed.h"
#include "dist/gradient_sum.h"
#include "dist/launch_key.h"
#include "dist/sealed.h"
#include "dist/traffic.h"
#include "ranks.h"

using namespace mlx;
using namespace mlx::dist;

namespace {

struct Sent {
  int from = 0, to = 0, number = 0;  // of the frames from one to the other
  Bytes frame;
};
using Frames = std::vector<Bytes>;
// What is sent in place of a frame: itself, if nothing is done to it.
using Alter = std::function<Frames(const Sent&)>;

// What frames go through.
class Line final : public Borrowed {
 public:
  Line(Communicator& ranks, const Alter& alter) : Borrowed(ranks), alter_(alter) {}
  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    const auto* const from = static_cast<const std::uint8_t*>(data);
    Sent sent{rank(), to, sent_[static_cast<std::size_t>(to)]++, Bytes(from, from + bytes)};
    Transfer last;
    for (const Bytes& frame : alter_ ? alter_(sent) : Frames{sent.frame})
      last = Borrowed::send(to, tag, frame.data(), frame.size());
    return last;
  }

 private:
  const Alter& alter_;
  std::array<int, 8> sent_{};
};

LaunchKey key_of(int ranks) {
  LaunchKey key = make_launch_key({{"a", 1}});
  for (int rank = 1; rank < ranks; ++rank) key.hosts.push_back({std::string(1, static_cast<char>('a' + rank)), 1});
  return key;
}

constexpr std::size_t kSize = (std::size_t{1} << 20) + 5;  // five frames

// Every rank but 0 sends it two messages, and it answers each.
void talk(Communicator& ranks) {
  const Bytes message(kSize, static_cast<std::uint8_t>(ranks.rank() + 1));
  Bytes arrived(kSize);
  const auto done = [&](Communicator::Transfer transfer) { ranks.wait({&transfer, 1}); };
  for (int round = 0; round < 2; ++round) {
    for (int other = 1; other < ranks.ranks(); ++other) {
      if (ranks.rank() == 0) {
        done(ranks.receive(other, 3, arrived.data(), kSize));
        if (arrived != Bytes(kSize, static_cast<std::uint8_t>(other + 1))) throw std::runtime_error("other bytes");
        done(ranks.send(other, 3, message.data(), kSize));
      } else if (ranks.rank() == other) {
        done(ranks.send(0, 3, message.data(), kSize));
        done(ranks.receive(0, 3, arrived.data(), kSize));
      }
    }
  }
}

void on_sealed(int count, const LaunchKey& key, const Alter& alter, const std::function<void(Communicator&)>& body) {
  on_ranks(count, [&](Communicator& ranks) {
    const std::unique_ptr<Communicator> sealed = sealed_ranks(std::make_unique<Line>(ranks, alter), key);
    body(*sealed);
  });
}

// The first error, by rank; "" if there is none.
std::string said(const Alter& alter, int count = 2, ErrorKind kind = ErrorKind::kCorrupt) {
  try {
    on_sealed(count, key_of(count), alter, talk);
  } catch (const Error& error) {
    CHECK(error.kind == kind);
    return error.message;
  }
  return "";
}

// Changes the frame with this number from rank 1 to rank 0.
Alter in_place_of(int number, const std::function<Frames(Bytes)>& by) {
  return [=](const Sent& sent) {
    return sent.from == 1 && sent.to == 0 && sent.number == number ? by(sent.frame) : Frames{sent.frame};
  };
}

bool holds(const Bytes& all, ByteView part) {
  return std::search(all.begin(), all.end(), part.begin(), part.end()) != all.end();
}

ErrorKind kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind;
  }
  return ErrorKind::kNo;
}

}  // namespace

TEST_CASE("sealed: a frame that was changed is refused, whichever bit it is") {
  CHECK(said(nullptr) == "");
  const std::size_t whole = 32 + (std::size_t{256} << 10) - 48 + 16;
  for (const std::size_t at : {std::size_t{32}, std::size_t{100'000}, whole - 17, whole - 16, whole - 1}) {
    CAPTURE(at);
    CHECK(
        said(in_place_of(2,
                         [at](Bytes frame) {
                           frame.at(at) ^= 0x10;
                           return Frames{frame};
                         })) ==
        "rank 0 on a got something else than rank 1 on b sent: in place of frame 2 of tag 3 came one that was changed "
        "on the way");
  }
  for (std::size_t at = 0; at < 32; ++at) {  // its header
    CAPTURE(at);
    CHECK(
        said(in_place_of(0, [at](Bytes frame) {
          frame[at] ^= 1;
          return Frames{frame};
        })).starts_with("rank 0 on a got something else than rank 1 on b sent: in place of frame 0 of tag 3 came one"));
  }
}

TEST_CASE("sealed: a frame that was repeated, left out or moved is refused") {
  constexpr const char* kPlace =
      "rank 0 on a got something else than rank 1 on b sent: in place of frame {} of tag 3 came one that calls itself "
      "frame {}, repeated or out of order";
  CHECK(said(in_place_of(1, [](const Bytes& frame) { return Frames{frame, frame}; })) == fmt::format(kPlace, 2, 1));
  CHECK(said(in_place_of(1, [](const Bytes&) { return Frames(); })) == fmt::format(kPlace, 1, 2));
  Bytes held;
  CHECK(said([&](const Sent& sent) {
          if (sent.from != 1 || sent.number > 1) return Frames{sent.frame};
          if (sent.number == 1) return Frames{sent.frame, held};
          held = sent.frame;
          return Frames();
        }) == fmt::format(kPlace, 0, 1));
  // As if it were the next one.
  CHECK(said(in_place_of(1, [](const Bytes& frame) {
          Bytes next = frame;
          next[24] = 2;
          return Frames{frame, next};
        })).ends_with("in place of frame 2 of tag 3 came one that was changed on the way"));
}

TEST_CASE("sealed: a frame of another pair, of the other direction or of another launch is refused") {
  std::promise<Bytes> first;
  std::shared_future<Bytes> taken = first.get_future().share();
  CHECK(said(
            [&](const Sent& sent) {
              if (sent.number > 0 || sent.to != 0) return Frames{sent.frame};
              if (sent.from == 1) first.set_value(sent.frame);
              return Frames{taken.get()};
            },
            3) ==
        "rank 0 on a got something else than rank 2 on c sent: in place of frame 0 of tag 3 came one that calls itself "
        "sent by rank 1 to rank 0");
  Bytes of_rank_0;
  std::mutex mutex;
  CHECK(said([&](const Sent& sent) {
          const std::lock_guard lock(mutex);
          if (sent.from == 0 && sent.number == 0) of_rank_0 = sent.frame;
          return Frames{sent.from == 1 && sent.number == 5 ? of_rank_0 : sent.frame};
        }).ends_with("in place of frame 5 of tag 3 came one that calls itself sent by rank 0 to rank 1"));
  std::vector<Bytes> earlier;
  on_sealed(
      2, key_of(2),
      [&](const Sent& sent) {
        if (sent.from == 1) earlier.push_back(sent.frame);
        return Frames{sent.frame};
      },
      talk);
  const auto replayed = [&](bool disguised) {
    return said([&](const Sent& sent) {
      if (sent.from != 1) return Frames{sent.frame};
      Bytes frame = earlier.at(static_cast<std::size_t>(sent.number));
      if (disguised) std::copy_n(sent.frame.begin(), 8, frame.begin());
      return Frames{frame};
    });
  };
  CHECK(replayed(false).ends_with("in place of frame 0 of tag 3 came one that calls itself of another launch"));
  CHECK(replayed(true).ends_with("in place of frame 0 of tag 3 came one that was changed on the way"));
}

TEST_CASE("sealed: a frame that was cut short or made longer ends the exchange") {
  for (const int more : {-1, -300, 1}) {
    CAPTURE(more);
    CHECK(said(in_place_of(4,
                           [more](Bytes frame) {
                             frame.resize(static_cast<std::size_t>(
                                 std::max<std::int64_t>(0, static_cast<std::int64_t>(frame.size()) + more)));
                             return Frames{frame};
                           }),
               2, ErrorKind::kIo)
              .starts_with("rank 1 sent "));
  }
}

TEST_CASE("sealed: other messages go on while one is waited for, however large they are") {
  on_sealed(2, key_of(2), nullptr, [](Communicator& ranks) {
    Bytes large(std::size_t{9} << 20, 5);  // more than is under way at once
    std::uint8_t byte = 0;
    const int other = 1 - ranks.rank();
    std::array transfers{ranks.rank() == 0 ? ranks.send(1, 0, large.data(), large.size())
                                           : ranks.receive(0, 0, large.data(), large.size()),
                         ranks.rank() == 0 ? ranks.receive(1, 1, &byte, 1) : ranks.send(0, 1, &byte, 1)};
    if (ranks.rank() == 0) std::swap(transfers[0], transfers[1]);  // the answer comes after the large message
    ranks.wait({transfers.data(), 1});
    ranks.wait({transfers.data() + 1, 1});
    if (!ranks.advance({transfers.data(), 1}) || ranks.activity().waits_for != -1) throw std::runtime_error("not done");
    transfers[0] = ranks.receive(other, 2, &byte, 1);
    Communicator::Transfer sent = ranks.send(other, 2, &byte, 1);
    ranks.wait({transfers.data(), 1});
    ranks.wait({&sent, 1});
  });
}

TEST_CASE("sealed: gradients have the same sums, and none of them can be read on the way") {
  std::mt19937 random(3);
  std::vector<float> gradient(300'000);
  for (float& x : gradient) x = static_cast<float>(random()) / 4e9f;
  const auto step = [&](bool sealed) {
    Bytes seen;
    std::mutex mutex;
    std::vector<float> sums[2];
    const Alter listen = [&](const Sent& sent) {
      const std::lock_guard lock(mutex);
      seen.insert(seen.end(), sent.frame.begin(), sent.frame.end());
      return Frames{sent.frame};
    };
    const auto body = [&](Communicator& ranks) {
      GradientSum sum(ranks, 2, {{static_cast<std::int64_t>(gradient.size())}});
      sum.add(0, gradient);
      sum.end_term();
      sum.wait();
      const std::span<const float> all = sum.sum(0);
      sums[ranks.rank()].assign(all.begin(), all.end());
      sum.end_step();
    };
    if (sealed)
      on_sealed(2, key_of(2), listen, body);
    else
      on_ranks(2, [&](Communicator& ranks) {
        Line line(ranks, listen);
        body(line);
      });
    CHECK(sums[0] == sums[1]);
    bool read = false;
    for (std::size_t i = 0; i + 4 <= gradient.size() && !read; i += 30'000)
      read = holds(seen, {reinterpret_cast<const std::uint8_t*>(&gradient[i]), 16});
    CHECK(read == !sealed);
    return sums[0];
  };
  CHECK(step(true) == step(false));
}

TEST_CASE("sealed: eight ranks, which sum in rounds, have the sums of one") {
  constexpr std::int64_t kCount = 200'000;
  const auto term_of = [](int term) {
    std::mt19937 random(static_cast<unsigned>(term));
    std::vector<float> out(kCount);
    for (float& x : out) x = static_cast<float>(random()) / 4e9f;
    return out;
  };
  const auto summed = [&](Communicator& ranks, Wire wire) {
    GradientSum sum(ranks, 8, {{kCount, wire}});
    for (int term = sum.terms().begin; term < sum.terms().end; ++term) sum.add(0, term_of(term)), sum.end_term();
    sum.wait();
    return std::vector<float>(sum.sum(0).begin(), sum.sum(0).end());
  };
  for (const Wire wire : {Wire::kF32, Wire::kBF16}) {
    const std::vector<float> expected = summed(*lone_rank(), wire);
    std::mutex mutex;
    int right = 0;
    on_sealed(
        8, key_of(8), [](const Sent& sent) { return Frames{sent.frame}; },
        [&](Communicator& ranks) {
          const std::vector<float> all = summed(ranks, wire);
          const std::lock_guard lock(mutex);
          if (all == expected) ++right;
        });
    CHECK_EQ(right, 8);
  }
}

TEST_CASE("sealed: frames take the memory that was forecast, however many messages are under way") {
  // Counts the buffers that the sealed rank has given to its carrier: they are used again.
  class Counted final : public Borrowed {
   public:
    Counted(Communicator& ranks, std::set<const void*>& buffers) : Borrowed(ranks), buffers_(buffers) {}
    Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
      buffers_.insert(data);
      return Borrowed::send(to, tag, data, bytes);
    }
    Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
      buffers_.insert(data);
      return Borrowed::receive(from, tag, data, bytes);
    }

   private:
    std::set<const void*>& buffers_;
  };
  constexpr std::int64_t kCount = 1 << 20;
  const std::vector<SummedArray> arrays(12, {kCount});
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    const LaunchKey key = key_of(ranks);
    std::mutex mutex;
    std::size_t most = 0;
    on_ranks(ranks, [&](Communicator& inner) {
      std::set<const void*> buffers;
      const auto sealed = sealed_ranks(std::make_unique<Counted>(inner, buffers), key);
      GradientSum sum(*sealed, ranks, arrays);
      for (std::size_t i = 0; i < arrays.size(); ++i) sum.add(i, std::vector<float>(kCount, 1.0f));
      sum.end_term();
      sum.wait();
      const std::lock_guard lock(mutex);
      most = std::max(most, buffers.size());
    });
    const std::int64_t forecast = sealed_memory(messages_at_once(arrays, ranks, ranks));
    CHECK((static_cast<std::int64_t>(most) << 18) <= forecast);
    CHECK(forecast >= (8 << 20));
  }
  CHECK_EQ(sealed_memory(0), (8 << 20));
  CHECK_EQ(sealed_memory(100), (58 << 20));
}

TEST_CASE("sealed: no two frames of a launch have the same bytes, whatever they say") {
  std::vector<Bytes> frames;
  std::mutex mutex;
  on_sealed(
      2, key_of(2),
      [&](const Sent& sent) {
        const std::lock_guard lock(mutex);
        frames.emplace_back(sent.frame.begin() + 32, sent.frame.end());
        return Frames{sent.frame};
      },
      [](Communicator& ranks) {
        const int other = 1 - ranks.rank();
        const Bytes zeros(64);
        Bytes arrived(64);
        for (int i = 0; i < 20; ++i) {
          std::array transfers{ranks.receive(other, i % 4, arrived.data(), 64),
                               ranks.send(other, i % 4, zeros.data(), 64)};
          ranks.wait(transfers);
        }
      });
  CHECK(frames.size() == 40);
  std::ranges::sort(frames);
  CHECK(std::ranges::adjacent_find(frames) == frames.end());
}

TEST_CASE("a launch's key is given once to each rank of the host, and to no other") {
  HeldKey held{make_launch_key({{"a", 1}, {"b", 2}, {"c", 1}}), 1, 2};
  const LaunchKey key = held.key;
  CHECK(key.rank_name(0) == "rank 0 on a");
  CHECK(key.rank_name(2) == "rank 2 on b");
  CHECK(key.rank_name(3) == "rank 3 on c");
  CHECK(kind_of([&] { (void)ask_for_key(held.name(), 1, 4); }) == ErrorKind::kIo);  // there is no holder
  {
    const KeyHolder holder(held);
    CHECK(kind_of([&] { const KeyHolder second(held); }) == ErrorKind::kConflict);
    const KeyHolder of_other_host({key, 3, 1});  // which is another name of this machine
    CHECK(kind_of([&] { (void)ask_for_key(held.name(), 0, 4); }) == ErrorKind::kRefused);
    CHECK(kind_of([&] { (void)ask_for_key(held.name(), 3, 4); }) == ErrorKind::kRefused);
    CHECK(kind_of([&] { (void)ask_for_key(held.name(), 1, 3); }) == ErrorKind::kRefused);
    const LaunchKey got = ask_for_key(held.name(), 2, 4);
    CHECK(got.secret == key.secret);
    CHECK(got.id == key.id);
    CHECK(got.rank_name(3) == "rank 3 on c");
    CHECK(kind_of([&] { (void)ask_for_key(held.name(), 2, 4); }) == ErrorKind::kRefused);
    CHECK(ask_for_key(held.name(), 1, 4).secret == key.secret);
    // All have it: the holder ends by itself.
    while (kind_of([&] { (void)ask_for_key(held.name(), 1, 4); }) != ErrorKind::kIo) ::usleep(1000);
  }
  { const KeyHolder unused(held); }  // ends
  CHECK(kind_of([&] { (void)ask_for_key(held.name(), 1, 4); }) == ErrorKind::kIo);
  CHECK(kind_of([&] { (void)ask_for_key(std::string(200, 'x'), 1, 4); }) == ErrorKind::kUsage);
}

TEST_CASE("a launch's key is not given to another user, and not taken from one") {
  if (::geteuid() != 0) return;  // only root can be somebody else
  HeldKey held{make_launch_key({{"a", 1}}), 0, 1};
  const KeyHolder holder(held);
  const pid_t other = ::fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(100);
    ::_exit(static_cast<int>(kind_of([&] { (void)ask_for_key(held.name(), 0, 1); })));
  }
  int status = 0;
  REQUIRE(::waitpid(other, &status, 0) == other);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(ErrorKind::kRefused));
  CHECK(ask_for_key(held.name(), 0, 1).secret == held.key.secret);  // it was not given away
}

TEST_CASE("a launch's key goes through a pipe, and what is none is refused") {
  const HeldKey held{make_launch_key({{"a", 1}, {"b", 2}}), 1, 2};
  const Secret bytes = encode(held);
  const auto read_from = [](ByteView sent) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const Fd read(ends[0]);
    {
      const Fd write(ends[1]);
      REQUIRE(::write(write.get(), sent.data(), sent.size()) == static_cast<ssize_t>(sent.size()));
    }
    return read_held_key(read.get());
  };
  const HeldKey back = read_from(bytes);
  CHECK(back.first == 1);
  CHECK(back.count == 2);
  CHECK(back.key.secret == held.key.secret);
  CHECK(back.key.rank_name(2) == "rank 2 on b");
  for (std::size_t size = 0; size < bytes.size(); size += 7)
    CHECK(kind_of([&] { (void)read_from(ByteView(bytes).first(size)); }) == ErrorKind::kIo);
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes changed(bytes.size());
    std::ranges::copy(ByteView(bytes), changed.begin());
    changed.at(at) = value;
    return kind_of([&] { (void)read_from(changed); });
  };
  CHECK(with(3, 0xff) == ErrorKind::kCorrupt);   // its size
  CHECK(with(4, 9) == ErrorKind::kCorrupt);      // version
  CHECK(with(8, 2) == ErrorKind::kCorrupt);      // ranks 2 and 3 of three
  CHECK(with(15, 0x80) == ErrorKind::kCorrupt);  // a count below 0
  CHECK(with(64, 9) == ErrorKind::kCorrupt);     // nine hosts
  CHECK(with(68, 0) == ErrorKind::kCorrupt);     // a host without ranks
}
