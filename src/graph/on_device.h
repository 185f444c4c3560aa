// A GPU's side of a session: what is fed is copied there, what is asked for is copied back, and stretches of nodes that
// run again and again are captured once and replayed. Used by sessions only; none of it is there on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "graph/memory.h"

namespace mlx::graph {

struct Holder {  // of memory, by name
  std::string name;
  std::size_t bytes = 0;
};

// `bytes` for `what`. kMissing where a GPU has no more: what was asked, what is free, and the largest of `holders`.
Memory take(const kernels::Device& device, std::size_t bytes, const std::string& what, std::vector<Holder> holders);

// kMissing where something has gone wrong on the device up to now, naming `node`, which was launched last.
void check_device(const kernels::Device& device, const std::string& node);

// A copy in the host's memory, when everything before it is done.
Bytes fetch(const kernels::Device& device, const void* from, std::size_t bytes);

// Nodes [first, last) of a bucket.
struct Stretch {
  const void* bucket = nullptr;
  std::size_t first = 0, last = 0;
  auto operator<=>(const Stretch&) const = default;
};

class OnDevice {
 public:
  using Take = std::function<Memory(std::size_t bytes, const std::string& what)>;

  OnDevice(const kernels::Device& device, std::size_t values, const Take& take);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { forget(); }

  // Where the copy of what was fed for a value stands.
  const void* feed(ValueId id, const void* data, std::size_t bytes, const std::string& name, const Take& take);
  // A copy on the host, valid until the next of the same value.
  ByteView view(ValueId id, const void* data, std::size_t bytes);
  // Seed and step of `args` go to where kernels read them.
  void start_run(kernels::Args& args);
  // Runs `steps`, which launches the stretch's kernels and nothing else: the first time as it stands, the second time
  // it is captured, and from then on replayed without being called.
  void run(const Stretch& stretch, const std::function<void()>& steps);
  // Captured launches hold addresses: called where any of them may have changed.
  void forget();

 private:
  struct Captured {
    void* launches = nullptr;
    bool refused = false;  // it could not be captured
  };
  const kernels::Device& device_;
  std::vector<Memory> fed_;             // by value
  std::vector<std::size_t> fed_bytes_;  // by value
  std::vector<Bytes> fetched_;          // by value
  Memory key_;                          // kernels::RandomKey
  std::map<Stretch, Captured> stretches_;
};

}  // namespace mlx::graph
