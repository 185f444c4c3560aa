// Ends a rank that its launcher can no longer reach. A host that was cut off notices nothing by itself: what it has
// sent is repeated for a quarter of an hour before the system gives up. So the launcher says a byte a second, which
// mpirun carries to the stdin of every rank.
#pragma once

#include <chrono>
#include <thread>

#include "base/fd.h"

namespace mlx::dist {

// Set for ranks to which the launcher speaks.
inline constexpr const char* kLifelineVariable = "MLX_LIFELINE";

class Lifeline {
 public:
  static constexpr std::chrono::seconds kSilence{20};
  // Reads `stream`, a file descriptor. After that much silence it ends the process, and the daemon of MPI that started
  // it. At the end of the stream it stops listening: MPI itself then ends the rank.
  explicit Lifeline(int stream);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  Fd end_;  // written when the thread is to end
  std::jthread thread_;
};

}  // namespace mlx::dist
