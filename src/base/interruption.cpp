// See interruption.h.
#include "base/interruption.h"

#include <csignal>

#include "base/error.h"

namespace mlx {

static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

const Interruption& Interruption::never() {
  static const Interruption token;
  return token;
}

void Interruption::stop() const {
  fail(ErrorKind::kInterrupted, "{}", signal() == SIGTERM ? "terminated" : "interrupted");
}

}  // namespace mlx
