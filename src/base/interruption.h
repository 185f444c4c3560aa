// A token by which one piece of work is asked to end. Whoever starts the work owns the token and raises it; the work
// looks at it between steps. A process may have several: jobs, requests, tests.
//
// Thread-safe. raise() may be called by a signal handler.
#pragma once

#include <atomic>

namespace mlx {

class Interruption {
 public:
  Interruption() = default;
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // For work that nobody interrupts.
  static const Interruption& never();

  // Asks the work to end. False if it was asked before.
  bool raise(int signal) noexcept { return signal_.exchange(signal) == 0; }
  // SIGINT or SIGTERM; 0 while the work may go on.
  int signal() const noexcept { return signal_.load(std::memory_order_relaxed); }
  // Throws Error{kInterrupted} after raise().
  void check() const {
    if (signal() != 0) stop();
  }

  // Puts a pending signal aside while interrupted work saves its results. A signal that arrives meanwhile ends that
  // too.
  class Deferred {
   public:
    explicit Deferred(const Interruption& interruption)
        : interruption_(interruption), signal_(interruption.signal_.exchange(0)) {}
    ~Deferred() {
      if (signal_ != 0) interruption_.signal_ = signal_;
    }
    Deferred(const Deferred&) = delete;
    Deferred& operator=(const Deferred&) = delete;

   private:
    const Interruption& interruption_;
    const int signal_;
  };

 private:
  [[noreturn]] void stop() const;
  mutable std::atomic<int> signal_ = 0;  // Deferred changes it for the work, which may not raise it
};

}  // namespace mlx
