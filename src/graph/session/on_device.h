// A GPU's side of a session. It copies inputs to the device and results back, and captures stretches of nodes that run
// repeatedly, to replay them. Used by sessions only; does not exist on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "graph/memory.h"
#include "graph/session/feeding.h"
#include "graph/session/session.h"

namespace mlx::graph {

struct Holder {  // of memory, by name
  std::string name;
  std::size_t bytes = 0;
};

// Allocates `bytes` for `what`. Throws kMissing if a GPU has no more: with what was asked, what is free, and the
// largest of `holders`. `training` selects the advice.
Memory take(const kernels::Device& device, std::size_t bytes, const std::string& what, std::vector<Holder> holders,
            bool training);

// Waits. Throws kMissing if something has gone wrong on the device since it was last waited for: at `node`, in any
// launch since then.
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
  // True if each operation is waited for before the next is launched, as CUDA_LAUNCH_BLOCKING=1 demands. This is slow,
  // and identifies the operation that fails.
  bool waits_for_each() const { return waits_for_each_; }

  // Prepares `args` for the kernels of a run, whose inputs were fed. Errors name `last`, its last node, until another
  // run starts.
  void start_run(kernels::Args& args, const std::string& last);
  // Runs `steps`, which only launches the stretch's kernels. The first time they are launched directly, the second time
  // they are captured, and from then on they are replayed without calling `steps`. Does not wait.
  void run(const Stretch& stretch, const std::function<void()>& steps);
  void check_launches() const;  // throws kMissing if a launch has failed; does not wait
  void wait() const;            // until all is done; throws kMissing if something has gone wrong
  // Captured launches hold addresses: call this when any of them may have changed.
  void drop_captured();

  // A copy in the host's memory, made when everything before it is done.
  Bytes fetch(const void* from, std::size_t bytes) const;
  // The same, valid until the next view of the same value.
  ByteView view(ValueId id, const void* data, std::size_t bytes);
  // Copies up to Session::kCollected bytes after everything launched before; does not wait.
  void collect(const void* from, std::size_t bytes);
  // Everything collected since the last call, each in kCollected bytes, after one wait. Valid until the next collect().
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
