// A GPU's side of a session: what is fed is copied there, what is asked for is copied back, and stretches of nodes that
// run again and again are captured once and replayed. Used by sessions only; none of it is there on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/feeding.h"
#include "graph/graph.h"
#include "graph/memory.h"
#include "graph/session.h"

namespace mlx::graph {

struct Holder {  // of memory, by name
  std::string name;
  std::size_t bytes = 0;
};

// `bytes` for `what`. kMissing where a GPU has no more: what was asked, what is free, and the largest of `holders`.
// `training` says what may help.
Memory take(const kernels::Device& device, std::size_t bytes, const std::string& what, std::vector<Holder> holders,
            bool training);

// Waits; kMissing where something has gone wrong on the device since it was last waited for: at `node`, all that was
// launched since then.
void check_device(const kernels::Device& device, const std::string& node);

// Nodes [first, last) of a bucket.
struct Stretch {
  const void* bucket = nullptr;
  std::size_t first = 0, last = 0;
  auto operator<=>(const Stretch&) const = default;
};

class OnDevice {
 public:
  OnDevice(const kernels::Device& device, std::size_t values);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();  // waits until none of its memory is used

  Feeding& feeding() { return feeding_; }
  // Whether each operation is waited for before the next is launched, as CUDA_LAUNCH_BLOCKING=1 asks: slow, and what
  // goes wrong is known by name.
  bool waits_for_each() const { return waits_for_each_; }

  // Readies `args` for kernels of a run, which was fed. `last` names its last node in errors, for as long as no other
  // run starts.
  void start_run(kernels::Args& args, const std::string& last);
  // Runs `steps`, which launches the stretch's kernels and nothing else: the first time as it stands, the second time
  // it is captured, and from then on replayed without being called. Does not wait.
  void run(const Stretch& stretch, const std::function<void()>& steps);
  void check_launches() const;  // kMissing where one could not be made; does not wait
  void wait() const;            // until all is done; kMissing where something has gone wrong
  // Captured launches hold addresses: called where any of them may have changed.
  void drop_captured();

  // A copy in the host's memory, when everything before it is done.
  Bytes fetch(const void* from, std::size_t bytes) const;
  // The same, valid until the next of the same value.
  ByteView view(ValueId id, const void* data, std::size_t bytes);
  // A copy of up to Session::kCollected bytes, as they are behind what was launched before; does not wait.
  void collect(const void* from, std::size_t bytes);
  // What was collected since the last call, each in as many, by one wait; valid until the next collect().
  ByteView collected();

 private:
  struct Captured {
    void* launches = nullptr;
    bool refused = false;  // it could not be captured
  };
  const kernels::Device& device_;
  Feeding feeding_;
  std::vector<Bytes> fetched_;  // by value
  std::map<Stretch, Captured> stretches_;
  std::string last_ = "the start";
  bool waits_for_each_ = false;
  PinnedMemory collected_;
  std::size_t collected_count_ = 0, collected_capacity_ = 0;
};

}  // namespace mlx::graph
