// One launch for many tensors. Optimizers and casts process all of a model's parameters; most are too small to fill a
// GPU, and separate launches would take longer than the work. Used by optimizer.cu and pointwise.cu.
#pragma once

#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

inline constexpr int kGroupSlots = 64;                         // as many as fit in a kernel's 4 KiB of arguments
inline constexpr std::int64_t kGroupElements = 16 * kThreads;  // per block

// Slot has `count` elements; the blocks of slot i are first[i] … first[i + 1] - 1.
template <typename Slot>
struct Group {
  Slot slots[kGroupSlots];
  std::int64_t first[kGroupSlots + 1];
  int count;
};

// One thread of a block calls rule.begin(); then rule(slot, i, result of begin()) runs for each element.
template <typename Slot, typename Rule>
__global__ void group_kernel(const __grid_constant__ Group<Slot> group, const __grid_constant__ Rule rule) {
  __shared__ typename Rule::Begun begun;
  if (threadIdx.x == 0) begun = rule.begin();
  __syncthreads();
  int at = 0;
  while (std::int64_t{blockIdx.x} >= group.first[at + 1]) ++at;
  const Slot slot = group.slots[at];
  const std::int64_t from = (std::int64_t{blockIdx.x} - group.first[at]) * kGroupElements;
  const std::int64_t end = from + kGroupElements < slot.count ? from + kGroupElements : slot.count;
  for (std::int64_t i = from + threadIdx.x; i < end; i += kThreads) rule(slot, i, begun);
}

// Runs calls of one kernel; adjacent calls with the same rule share a launch. rule_of(state, args), slot_of(state,
// args).
template <typename RuleOf, typename SlotOf>
void run_group(const Call* calls, int count, RuleOf rule_of, SlotOf slot_of) {
  using Rule = decltype(rule_of(state_of(calls->state), calls->args));
  using Slot = decltype(slot_of(state_of(calls->state), calls->args));
  static_assert(sizeof(Group<Slot>) + sizeof(Rule) <= 4096);
  for (int done = 0; done < count;) {
    const Call& first = calls[done];
    const Rule rule = rule_of(state_of(first.state), first.args);
    Group<Slot> group{};
    for (; done < count && group.count < kGroupSlots; ++done) {
      const Call& call = calls[done];
      if (!(rule_of(state_of(call.state), call.args) == rule)) break;
      Slot& slot = group.slots[group.count];
      slot = slot_of(state_of(call.state), call.args);
      group.first[group.count + 1] = group.first[group.count] + divide_up(slot.count, kGroupElements);
      ++group.count;
    }
    launch(first.args, group_kernel<Slot, Rule>, blocks(group.first[group.count]), kThreads, group, rule);
  }
}

// The plan runs `kRunMany`, for itself alone or together with other plans.
template <void (*kRunMany)(const Call* calls, int count)>
void take_many(Plan& plan) {
  plan.run_many = kRunMany;
  plan.run = [](const void* state, const Args& args, int, int) {
    const Call call{state, args};
    kRunMany(&call, 1);
  };
}

}  // namespace mlx::kernels::cuda
