// Messages that go on while their owner computes: a thread of its own sees to them. MPI moves a large message piece by
// piece, and only while somebody asks for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/parallel.h"
#include "dist/communicator.h"

namespace mlx::dist {

// For one thread beside its own.
class Courier {
 public:
  // `communicator`, and all that share its messages, are the courier's from a send() or receive() until idle() has
  // returned. Without `in_background` messages go on in wait(), poll() and idle() only, and are never in between.
  Courier(Communicator& communicator, bool in_background);
  ~Courier();  // leaves what is under way

  using Ticket = std::int64_t;
  // As Communicator's, until wait() of the ticket has returned.
  Ticket send(int to, int tag, const void* data, std::size_t bytes);
  Ticket receive(int from, int tag, void* data, std::size_t bytes);
  void wait(Ticket ticket);  // throws what a message threw
  void poll();
  void idle();  // until all are done

 private:
  struct Open {
    Ticket ticket = 0;
    Communicator::Transfer transfer;
  };
  using Begin = std::function<Communicator::Transfer()>;
  Ticket begin(Begin message);
  void see_to(Ticket ticket, const Begin& message);
  void settle(bool pauses);
  bool is_open(Ticket ticket);
  template <typename Done>
  void await(const Done& done);

  Communicator& communicator_;
  std::atomic<Ticket> posted_ = 0;
  std::atomic<bool> awaited_ = false, stopping_ = false;  // awaited_: the owner waits for a message
  // Of whichever thread sees to them.
  std::vector<Open> open_;
  std::vector<Communicator::Transfer> transfers_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_, wake_;
  std::set<Ticket> under_way_;
  std::exception_ptr failed_;
  std::unique_ptr<Background> thread_;  // last, so that it ends first
};

}  // namespace mlx::dist
