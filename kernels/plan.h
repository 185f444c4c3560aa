// Shared by the hand-written kernels (ref, simd, avx512): the state behind their plans, and the rule that cuts work
// into slices. State and range_of are plain data and internal functions, so that code of any instruction set can use
// them.
#pragma once

#include <cstdint>

#include "kernels/geometry.h"
#include "kernels/half.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

struct State {
  Attrs attrs;  // ISA code reads its scalars only
  Geometry g;
  std::int64_t items[kMaxPhases] = {};  // what each phase is cut by: images, rows, channels, blocks of elements
  int slices[kMaxPhases] = {};
  std::int64_t slice_bytes = 0;  // private workspace of each slice, if the kernel needs it
};

using Run = void (*)(const void* state, const Args& args, int phase, int slice);

// The types that a kernel takes besides f32: none; bf16 activations and gradients with f32 weights; or both
// half-precision types wherever op_list.h allows them.
enum class Takes { kF32, kBF16, kHalf };
// Owned by `plan` afterwards. Null if the problem is inconsistent (describe), or has a half-precision tensor that the
// kernel does not take.
State* new_state(const Problem& problem, Plan& plan, Run run, Takes takes = Takes::kF32);

// Cuts phase `phase` into slices by its items, which touch `bytes` of memory in total: at most 16 slices of at least 32
// KiB.
void cut(State* state, Plan& plan, int phase, std::int64_t items, std::int64_t bytes);

struct Range {
  std::int64_t begin, end;
};

// The items of one slice; the slices cover all items in order.
static inline Range range_of(const State* state, int phase, int slice) {
  const std::int64_t items = state->items[phase], slices = state->slices[phase];
  return {items * slice / slices, items * (slice + 1) / slices};
}

// Elementwise work is cut into blocks, a multiple of every vector width and of Philox's four numbers.
inline constexpr std::int64_t kBlock = 64;
static inline Range elements_of_slice(std::int64_t count, std::int64_t slices, std::int64_t slice) {
  const std::int64_t blocks = (count + kBlock - 1) / kBlock, end = blocks * (slice + 1) / slices * kBlock;
  return {blocks * slice / slices * kBlock, end < count ? end : count};
}
static inline Range elements_of(const State* state, int phase, int slice, std::int64_t count) {
  const Range blocks = range_of(state, phase, slice);
  const std::int64_t end = blocks.end * kBlock;
  return {blocks.begin * kBlock, end < count ? end : count};
}

// Calls `make` with a value of the type in which a known f32 table, input `input`, is stored: float, BF16 or F16. The
// kernel takes it so.
template <typename Make>
static inline Run reading_stored(const Problem& problem, Plan& plan, int input, Make make) {
  if (!stored_in_half(problem, input)) return make(float{});
  plan.stored_input = input;
  return problem.stored[input] == DType::kBF16 ? make(BF16{}) : make(F16{});
}

// Tensors of Args by type; null for an absent one.
static inline const float* f32_in(const State* state, const Args& args, int i) {
  return state->g.has_input[i] ? static_cast<const float*>(args.inputs[i]) : nullptr;
}
static inline const std::int32_t* s32_in(const State* state, const Args& args, int i) {
  return state->g.has_input[i] ? static_cast<const std::int32_t*>(args.inputs[i]) : nullptr;
}
static inline float* f32_out(const State* state, const Args& args, int i) {
  return state->g.has_output[i] ? static_cast<float*>(args.outputs[i]) : nullptr;
}
static inline std::int32_t* s32_out(const State* state, const Args& args, int i) {
  return state->g.has_output[i] ? static_cast<std::int32_t*>(args.outputs[i]) : nullptr;
}

}  // namespace mlx::kernels
