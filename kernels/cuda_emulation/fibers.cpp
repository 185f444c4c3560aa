// Blocks of threads, as fibers of one host thread (cuda_runtime.h in this folder).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cuda_emulation/cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the callee-saved registers and the stack pointer in *from, and continues where `to` was saved (System V ABI,
// x86-64).
extern "C" void mlx_switch_stack(void** from, void* to);
__asm__(R"(
.text
.globl mlx_switch_stack
.hidden mlx_switch_stack
.type mlx_switch_stack, @function
mlx_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mlx_switch_stack, .-mlx_switch_stack
.section .note.GNU-stack,"",@progbits
.text
)");

namespace mlx::emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStack = std::size_t{64} << 10;

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes, zeros;
};

enum class Waits { kNot, kForWarp, kForBlock, kDone };

struct Fiber {
  std::unique_ptr<char[]> stack{new char[kStack]};
  void* at = nullptr;  // its stack pointer while it is not running
  void* shadow = nullptr;
  Waits waits = Waits::kNot;
  bool vote = false;
  unsigned exchanges = 0;
  // For exchanges with even and odd numbers: a lane is at most one exchange ahead of another.
  alignas(16) unsigned char given[2][kMostGiven] = {};
  std::vector<std::vector<Copy>> copies;  // by group; the last one is not yet committed
};

struct Block {
  std::vector<Fiber> fibers;
  const std::function<void()>* thread = nullptr;
  Fiber* running = nullptr;
  void* scheduler = nullptr;  // its stack pointer while a fiber runs
  void* shadow = nullptr;
  const void* bottom = nullptr;  // of the scheduler's stack
  std::size_t size = 0;
  std::unique_ptr<unsigned char[]> memory;  // dynamic shared memory: a separate allocation, so that ASan knows its ends
};

Block block;

// Tells ASan which stack is in use.
void leave_for([[maybe_unused]] void** shadow, [[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(shadow, bottom, size);
#endif
}
void arrived([[maybe_unused]] void* shadow, [[maybe_unused]] const void** bottom, [[maybe_unused]] std::size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow, bottom, size);
#endif
}

void to_scheduler(Waits waits) {
  Fiber& own = *block.running;
  own.waits = waits;
  leave_for(waits == Waits::kDone ? nullptr : &own.shadow, block.bottom, block.size);
  mlx_switch_stack(&own.at, block.scheduler);
  arrived(own.shadow, &block.bottom, &block.size);
}

void first_of_fiber() {
  arrived(nullptr, &block.bottom, &block.size);
  (*block.thread)();
  to_scheduler(Waits::kDone);
  std::abort();  // a finished fiber is never resumed
}

// Prepares a stack on which mlx_switch_stack returns into first_of_fiber, aligned as after a call.
void prepare(Fiber& fiber) {
  auto top = reinterpret_cast<std::uintptr_t>(fiber.stack.get() + kStack) / 16 * 16;
  auto* slots = reinterpret_cast<void**>(top) - 2;
  slots[1] = nullptr;
  slots[0] = reinterpret_cast<void*>(first_of_fiber);
  slots -= 6;
  for (int i = 0; i < 6; ++i) slots[i] = nullptr;
  fiber.at = slots;
  fiber.waits = Waits::kNot;
  fiber.exchanges = 0;
  fiber.copies.assign(1, {});
}

void go_on(unsigned index) {
  Fiber& fiber = block.fibers[index];
  block.running = &fiber;
  threadIdx.x = index;
  leave_for(&block.shadow, fiber.stack.get(), kStack);
  mlx_switch_stack(&block.scheduler, fiber.at);
  arrived(block.shadow, nullptr, nullptr);
}

// Resumes the running fibers of [begin, end) if all of them wait for `what`.
bool release(unsigned begin, unsigned end, Waits what) {
  bool any = false;
  for (unsigned i = begin; i < end; ++i) {
    if (block.fibers[i].waits == Waits::kDone) continue;
    if (block.fibers[i].waits != what) return false;
    any = true;
  }
  for (unsigned i = begin; any && i < end; ++i)
    if (block.fibers[i].waits == what) block.fibers[i].waits = Waits::kNot;
  return any;
}

// Runs a warp until all of its fibers wait for the block, or are done.
void run_warp(unsigned begin, unsigned end, bool backwards) {
  do {
    for (unsigned i = begin; i < end; ++i) {
      const unsigned index = backwards ? begin + end - 1 - i : i;
      if (block.fibers[index].waits == Waits::kNot) go_on(index);
    }
  } while (release(begin, end, Waits::kForWarp));
}

// Lets each warp run as far ahead of the others as barriers allow.
void run_block(unsigned threads, bool backwards) {
  if (block.fibers.size() < threads) block.fibers.resize(threads);
  for (unsigned i = 0; i < threads; ++i) prepare(block.fibers[i]);
  const unsigned warps = (threads + kWarp - 1) / kWarp;
  do {
    for (unsigned i = 0; i < warps; ++i) {
      const unsigned first = (backwards ? warps - 1 - i : i) * kWarp;
      run_warp(first, std::min(first + kWarp, threads), backwards);
    }
  } while (release(0, threads, Waits::kForBlock));
  for (unsigned i = 0; i < threads; ++i) {
    if (block.fibers[i].waits == Waits::kDone) continue;
    std::fprintf(stderr, "emulated CUDA: thread %u of a block waits for others that do not come\n", i);
    std::abort();
  }
}

}  // namespace

void run_grid(dim3 grid, unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  block.thread = &thread;
  block.memory.reset(new unsigned char[shared_bytes]);
  std::memset(block.memory.get(), 0xff, shared_bytes);  // NaN, whatever the element type
  gridDim = grid;
  blockDim = dim3(threads);
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        run_block(threads, (x + y + z) % 2 == 1);
      }
}

void wait_for_block() {
  to_scheduler(Waits::kForBlock);
}

bool any_of_block(bool vote) {
  Fiber& own = *block.running;
  own.vote = vote;
  to_scheduler(Waits::kForBlock);
  bool any = false;
  for (unsigned i = 0; i < blockDim.x; ++i) any |= block.fibers[i].waits != Waits::kDone && block.fibers[i].vote;
  to_scheduler(Waits::kForBlock);  // nobody votes again before all have counted
  return any;
}

Given give(const void* data, std::size_t bytes) {
  Fiber& own = *block.running;
  const unsigned first = threadIdx.x / kWarp * kWarp, which = own.exchanges++ % 2;
  std::memcpy(own.given[which], data, bytes);
  to_scheduler(Waits::kForWarp);
  return {block.fibers[first].given[which], sizeof(Fiber)};
}

void* block_memory() {
  return block.memory.get();
}

void copy_later(void* to, const void* from, std::size_t bytes, std::size_t zeros) {
  block.running->copies.back().push_back({to, from, bytes, zeros});
}

void commit_copies() {
  block.running->copies.emplace_back();
}

void wait_copies(std::size_t pending) {
  auto& groups = block.running->copies;
  const std::size_t done = groups.size() - 1 > pending ? groups.size() - 1 - pending : 0;
  for (std::size_t i = 0; i < done; ++i) {
    for (const Copy& copy : groups[i]) {
      if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
      std::memset(static_cast<unsigned char*>(copy.to) + copy.bytes, 0, copy.zeros);
    }
  }
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace mlx::emulation
