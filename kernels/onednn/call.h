// The base of every kernel of this module: one oneDNN primitive bound to its memory objects, slices fixed by shape,
// and the way a state becomes a Plan. Used only inside kernels/onednn/.
//
// oneDNN's own OpenMP threading is never used: whatever thread prepares or runs is told to stay alone (its thread count
// is baked into a primitive when that is created, and would decide the order of sums). Parallelism is ours, a slice a
// primitive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <exception>
#include <initializer_list>
#include <memory>

#include "kernels/kernel.h"

namespace mlx::kernels::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// OpenMP uses only the calling thread from here on; costs a thread-local load after the first call.
void stay_on_this_thread();

dnnl::memory::data_type data_type(DType dtype);  // throws dnnl::error for i64, which oneDNN lacks

inline std::size_t round_up(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// One primitive with prebuilt arguments. run() sets the pointers that changed since the last call and executes; it is
// for one thread at a time, so a plan has a Call for each slice.
class Call {
 public:
  static constexpr int kMaxSlots = 5;
  struct Slot {
    int argument;  // DNNL_ARG_…
    Desc desc;     // the memory must stay valid only while run() runs
  };

  Call() = default;
  Call(const dnnl::engine& engine, const dnnl::primitive& primitive, std::initializer_list<Slot> slots);

  // `pointers` in the order of the slots. Ends the process where oneDNN reports a failure: that is memory exhausted
  // within it or a mistake of ours, and a kernel has no way to return it.
  void run(std::initializer_list<const void*> pointers) const;

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  int count_ = 0;
  std::array<dnnl::memory, kMaxSlots> memories_;
  std::array<dnnl_exec_arg_t, kMaxSlots> arguments_{};
  mutable std::array<const void*, kMaxSlots> pointers_{};
};

// `total` items in `count` runs of `per` (the last may be shorter).
struct Cut {
  std::int64_t total = 0, per = 0;
  int count = 0;
  std::int64_t begin(int slice) const { return slice * per; }
  std::int64_t size(int slice) const { return slice + 1 < count ? per : total - begin(slice); }
};

// As many slices as are worth it, at most `most`: no slice but the last has fewer than `least` items or less work than
// pays for handing it to another thread. `work` is of one item, in floating point operations.
Cut cut(std::int64_t total, int most, std::int64_t least, double work);

// Gives `plan` the state: State has run(args, phase, slice) const and, where it packs weights, pack(weights, packed)
// const.
template <class State>
void give(Plan& plan, std::unique_ptr<State> state) {
  plan.run = [](const void* self, const Args& args, int phase, int slice) {
    stay_on_this_thread();
    static_cast<const State*>(self)->run(args, phase, slice);
  };
  if constexpr (requires(const State& self) { self.pack(nullptr, nullptr); }) {
    plan.pack = [](const void* self, const void* weights, void* packed) {
      stay_on_this_thread();
      static_cast<const State*>(self)->pack(weights, packed);
    };
  }
  plan.destroy = [](void* self) { delete static_cast<State*>(self); };
  plan.state = state.release();
}

// A Kernel::prepare that throws nothing: this backend does not serve problems that oneDNN cannot do.
template <bool (*Prepare)(const Problem&, Plan&)>
bool guarded(const Problem& problem, Plan& plan) {
  try {
    stay_on_this_thread();
    return Prepare(problem, plan);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace mlx::kernels::onednn
