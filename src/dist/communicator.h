// The ranks of one training, and the messages between them. Everything else of src/dist (collectives.h, gradient_sum.h)
// is written over this interface. Its implementations: MPI (mpi.h), for processes on any hosts; another one whose
// messages are sealed (sealed.h); threads of one process (local_ranks.h), for tests; and a rank alone.
//
// Messages between two ranks with the same tag arrive in the order in which they were sent. An object is used by one
// thread at a time, which need not be the one that made it. A failed transfer throws kIo, and names the other rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mlx::dist {

// What a rank does now, and has done in the steps of this process. Written by its own threads, read by any.
struct Activity {
  std::atomic<std::int64_t> step = 0;  // of the training; 0 before the first
  std::atomic<int> waits_for = -1;     // another rank; -1 for none
  std::atomic<const char*> unit = "examples";
  std::atomic<std::int64_t> units = 0, bytes_sent = 0;
  std::atomic<double> seconds = 0, reading = 0, waiting = 0;  // of steps; of these, for batches and for other ranks
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual std::string name() const = 0;  // "rank 2 on b.example"
  virtual Activity& activity() const { return activity_; }

  // A message that is under way. `id` is the implementation's; 0: it is done.
  struct Transfer {
    std::int64_t id = 0;
  };
  // Begin a message of exactly `bytes` bytes (0 is allowed; the other side names the same number) to or from another
  // rank. The memory belongs to the transfer until wait() returns. `tag` is at least 0 and below kTags;
  // the last two are those of collectives.h and of whoever has the training's ranks agree (train/loop/local_sgd.h).
  static constexpr int kTags = 1 << 15;
  virtual Transfer send(int to, int tag, const void* data, std::size_t bytes) = 0;
  virtual Transfer receive(int from, int tag, void* data, std::size_t bytes) = 0;
  // Until all are done. Other transfers go on meanwhile.
  virtual void wait(std::span<Transfer> transfers) = 0;
  // Whether all are done, and then they need no wait(). Those that are done have the id 0 afterwards. Does not wait for
  // other ranks, but if nothing moves may pause for some microseconds.
  virtual bool advance(std::span<Transfer> transfers) = 0;
  // The same without a pause, for whoever has other work meanwhile.
  virtual bool poll(std::span<Transfer> transfers) = 0;
  // Whether messages are sealed between the ranks (sealed.h).
  virtual bool encrypted() const { return false; }

 private:
  mutable Activity activity_;
};

// The only rank of a training on one process.
std::unique_ptr<Communicator> lone_rank();

}  // namespace mlx::dist
