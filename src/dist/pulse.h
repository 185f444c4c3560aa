// What a rank says of itself once a second, on its stderr, which mpirun carries to whoever has launched it (watch.h).
// It is said by a thread of its own, so that a rank that says nothing is stopped, gone, or out of reach.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "dist/communicator.h"

namespace mlx::dist {

// Set for ranks whose launcher listens.
inline constexpr const char* kPulseVariable = "MLX_PULSE";

class Pulse {
 public:
  // `ranks` must outlive it; `stream`: a file descriptor.
  Pulse(const Communicator& ranks, int stream);
  ~Pulse();  // says that the rank has ended
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  void beat(bool ended) const;

  const Communicator& ranks_;
  int stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::jthread thread_;
};

struct Beat {
  int rank = 0;
  bool ended = false;
  std::int64_t step = 0;  // 0: before the first
  int waits_for = -1;     // another rank
  // As in Activity; `cpu`: seconds that its threads ran.
  std::int64_t units = 0, bytes_sent = 0;
  double seconds = 0, reading = 0, waiting = 0, cpu = 0;
  std::string unit;  // "images"
  std::string name;  // "rank 2 on b"
};
// What a rank says of itself now, with the end of the line.
std::string beat_line(const Communicator& ranks, bool ended);
// A line of a stream; nullopt if it is something else that the rank says.
std::optional<Beat> parse_beat(std::string_view line);

}  // namespace mlx::dist
