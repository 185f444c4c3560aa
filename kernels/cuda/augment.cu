// Image augmentation from bytes on CUDA (op_list.h, image_change.h). A thread computes a run of adjacent elements and
// stores them at once: four if an image's length is a multiple of four, else one. A block works on one stretch of an
// image. It reads the image's change once, and keeps the table in shared memory, where random lookups are cheapest.
//
// A mixed element has the same bits as on the CPU: __fmul_rn and __fadd_rn are never contracted to a multiply-add,
// which would round once instead of three times.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/index.h"
#include "kernels/image_change.h"

namespace mlx::kernels::cuda {
namespace {

constexpr int kLongRun = 4, kRounds = 4;    // runs that each thread of a block computes
constexpr int kSharedChannels = 8;          // larger tables stay in global memory
constexpr std::int64_t kMostLayers = 1024;  // of the grid; blocks loop over the rest

struct Images {
  const std::uint8_t* pixels = nullptr;
  const std::int32_t* changes = nullptr;
};
struct Layout {
  std::int64_t count = 0;                               // images
  int height = 0, width = 0, channels = 0, length = 0;  // of one; length: elements
  Divider by_width, by_channels;
  explicit Layout(const Geometry& g)
      : count(g.n),
        height(static_cast<int>(g.h)),
        width(static_cast<int>(g.w)),
        channels(static_cast<int>(g.c)),
        length(static_cast<int>(g.h * g.w * g.c)),
        by_width(g.w),
        by_channels(g.c) {}
};

// A change with bounded numbers, so that arithmetic on the image's pixels cannot overflow.
struct Bounded {
  int down, right, top, bottom, left, end;  // erased: rows top … bottom-1, columns left … end-1
  bool flip;
};
__device__ int bounded(std::int64_t x, int low, int high) {
  return static_cast<int>(x < low ? low : x > high ? high : x);
}
__device__ Bounded change_of(const Layout& at, const std::int32_t* changes, std::int64_t image) {
  const std::int32_t* const row = changes + image * kChangeFields;  // in the order of ImageChange
  const std::int64_t erase = row[3], top = row[4], left = row[5];
  return {bounded(row[0], -at.height, at.height),
          bounded(row[1], -at.width, at.width),
          bounded(top, 0, at.height),
          bounded(top + erase, 0, at.height),
          bounded(left, 0, at.width),
          bounded(left + erase, 0, at.width),
          row[2] != 0};
}

// One element. Its loads do not depend on where it comes from, so that threads do not diverge.
__device__ float changed(const Layout& at, const Bounded& change, const std::uint8_t* image, const float* table,
                         int row, int column, int channel) {
  const int y = row - change.down, moved = column - change.right;
  const int x = change.flip ? at.width - 1 - moved : moved;
  const bool inside = y >= 0 && y < at.height && x >= 0 && x < at.width;
  const bool erased = row >= change.top && row < change.bottom && column >= change.left && column < change.end;
  const int pixel = image[inside ? (y * at.width + x) * at.channels + channel : 0];
  const float value = table[channel * static_cast<int>(kPixelValues) + (inside ? pixel : 0)];
  return erased ? 0.0f : value;
}

// Elements first … first + kRun-1 of an image.
template <int kRun>
__device__ void make_run(const Layout& at, const Bounded& change, const std::uint8_t* image, const float* table,
                         int first, float* values) {
  const int pixel = at.by_channels.quotient(first);
  int channel = at.by_channels.remainder(first), row = at.by_width.quotient(pixel),
      column = at.by_width.remainder(pixel);
  for (int i = 0; i < kRun; ++i) {
    values[i] = changed(at, change, image, table, row, column, channel);
    if (++channel < at.channels) continue;
    channel = 0;
    if (++column < at.width) continue;
    column = 0;
    ++row;
  }
}

// Stores a run with one instruction (PTX ISA, section st); compilers do not combine the four stores.
__device__ void store_run(const float (&values)[kLongRun], float* to) {
#ifdef __CUDA_ARCH__
  asm volatile("st.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3])
               : "memory");
#else
  for (int i = 0; i < kLongRun; ++i) to[i] = values[i];
#endif
}
template <typename Half>
__device__ void store_run(const float (&values)[kLongRun], Half* to) {
  Half half[kLongRun];
  for (int i = 0; i < kLongRun; ++i) to_half(values[i], &half[i]);
#ifdef __CUDA_ARCH__
  asm volatile("st.v4.u16 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "h"(half[0].bits), "h"(half[1].bits), "h"(half[2].bits), "h"(half[3].bits)
               : "memory");
#else
  for (int i = 0; i < kLongRun; ++i) to[i] = half[i];
#endif
}
__device__ void store_run(const float (&values)[1], float* to) {
  *to = values[0];
}
template <typename Half>
__device__ void store_run(const float (&values)[1], Half* to) {
  to_half(values[0], to);
}

template <int kRun, typename T>
__global__ void augment_kernel(Layout at, Images own, Images partner, const float* table, const float* share, T* y) {
  __shared__ float shared[kSharedChannels * kPixelValues];
  if (at.channels <= kSharedChannels) {
    for (int i = static_cast<int>(threadIdx.x); i < at.channels * kPixelValues; i += kThreads) shared[i] = table[i];
    __syncthreads();
    table = shared;
  }
  const bool mixed = partner.pixels != nullptr;
  const float part = mixed ? *share : 1.0f, rest = 1.0f - part;
  const int begin = static_cast<int>(blockIdx.x) * (kThreads * kRun * kRounds);
  for (std::int64_t image = blockIdx.y; image < at.count; image += gridDim.y) {
    const std::int64_t base = image * at.length;
    const Bounded change = change_of(at, own.changes, image);
    const Bounded other = mixed ? change_of(at, partner.changes, image) : Bounded{};
    for (int round = 0; round < kRounds; ++round) {
      const int first = begin + (round * kThreads + static_cast<int>(threadIdx.x)) * kRun;
      if (first >= at.length) break;
      float values[kRun], theirs[kRun];
      make_run<kRun>(at, change, own.pixels + base, table, first, values);
      if (mixed) {
        make_run<kRun>(at, other, partner.pixels + base, table, first, theirs);
        for (int i = 0; i < kRun; ++i) values[i] = __fadd_rn(__fmul_rn(part, values[i]), __fmul_rn(rest, theirs[i]));
      }
      store_run(values, y + base + first);
    }
  }
}

template <int kRun, typename T>
void launch_augment(const State& s, const Args& args) {
  const auto images_in = [&](int i) -> Images {
    if (!s.g.has_input[i]) return {};
    return {static_cast<const std::uint8_t*>(args.inputs[i]), s32_in(&s, args, i + 1)};
  };
  const Layout at(s.g);
  const std::int64_t stretches = divide_up(at.length, kThreads * kRun * kRounds);
  launch(args, augment_kernel<kRun, T>, blocks(stretches, std::min(at.count, kMostLayers)), kThreads, at, images_in(0),
         images_in(3), f32_in(&s, args, 2), f32_in(&s, args, 5), static_cast<T*>(args.outputs[0]));
}

template <typename T>
void run_augment(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  if (s.g.h * s.g.w * s.g.c % kLongRun == 0)
    launch_augment<kLongRun, T>(s, args);
  else
    launch_augment<1, T>(s, args);
}

}  // namespace

bool prepare_augment(const Problem& problem, Plan& plan) {
  State* const s = new_state(problem, plan, run_augment<float>, Takes::kHalf);
  if (!s) return false;
  if (s->g.y_type == DType::kBF16) plan.run = run_augment<BF16>;
  if (s->g.y_type == DType::kF16) plan.run = run_augment<F16>;
  return true;
}

}  // namespace mlx::kernels::cuda
