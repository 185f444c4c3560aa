// The base of every kernel in this module: one oneDNN primitive bound to its memory objects, slices fixed by shape, and
// the conversion of a state into a Plan. Used only inside kernels/onednn/.
//
// oneDNN's own OpenMP threading is never used. Every thread that prepares or runs a kernel is restricted to itself,
// because oneDNN stores its thread count in a primitive at creation, and that count would determine the order of sums.
// mlx's own threads run the slices, one primitive each.
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

// From here on OpenMP uses only the calling thread. After the first call this costs one thread-local load.
void stay_on_this_thread();

dnnl::memory::data_type data_type(
    DType dtype);  // for i64, which oneDNN lacks, dnnl::error: guarded() passes the problem on

inline std::size_t round_up(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// One primitive with prebuilt arguments. run() sets the pointers that have changed since the last call, then executes.
// A Call is used by one thread at a time, so a plan has a Call for each slice.
class Call {
 public:
  static constexpr int kMaxSlots = 5;
  struct Slot {
    int argument;  // DNNL_ARG_…
    Desc desc;     // the memory must stay valid only while run() runs
  };

  Call() = default;
  Call(const dnnl::engine& engine, const dnnl::primitive& primitive, std::initializer_list<Slot> slots);

  // `pointers` are in the order of the slots. Aborts the process if oneDNN reports a failure: oneDNN ran out of memory
  // or mlx has a bug, and a kernel cannot return errors.
  void run(std::initializer_list<const void*> pointers) const;

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  int count_ = 0;
  std::array<dnnl::memory, kMaxSlots> memories_;
  std::array<dnnl_exec_arg_t, kMaxSlots> arguments_{};
  mutable std::array<const void*, kMaxSlots> pointers_{};
};

// `total` items in `count` slices of `per` items; the last slice may be smaller.
struct Cut {
  std::int64_t total = 0, per = 0;
  int count = 0;
  std::int64_t begin(int slice) const { return slice * per; }
  std::int64_t size(int slice) const { return slice + 1 < count ? per : total - begin(slice); }
};

// Cuts into as many slices as pay off, at most `most`. Every slice but the last has at least `least` items, and enough
// work to pay for handing it to another thread. `work`: floating point operations per item.
Cut cut(std::int64_t total, int most, std::int64_t least, double work);

// Moves the state into `plan`. State has run(args, phase, slice) const and, if it packs weights, pack(weights, packed)
// const.
template <class State>
void give(Plan& plan, std::unique_ptr<State> state) {
  plan.run = [](const void* self, const Args& args, int phase, int slice) {
    stay_on_this_thread();
    static_cast<const State*>(self)->run(args, phase, slice);
  };
  if constexpr (requires(const State& self) { self.pack(nullptr, nullptr); }) {
    plan.pack = [](const void* self, const void* weights, const void*, void* packed) {
      stay_on_this_thread();
      static_cast<const State*>(self)->pack(weights, packed);
    };
  }
  plan.destroy = [](void* self) { delete static_cast<State*>(self); };
  plan.state = state.release();
}

// A Kernel::prepare that catches all exceptions: problems that oneDNN cannot do are not served by this backend.
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
