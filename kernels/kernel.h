// The kernel table's types: what an operation computes, for which dtypes and sizes, and the kernels that compute it.
//
// `prepare` may allocate and JIT; it fixes the workspace, the layout of packed weights and how the work is cut into
// slices — by shape alone, never by the thread count. `run` does one slice of one phase and neither allocates, throws
// nor logs. Phases run one after another; the slices of a phase are independent and write disjoint outputs; partial
// sums are added in slice order by a later phase. Activations are row-major, images NHWC; only packed weights have
// opaque layouts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "kernels/op.h"

namespace mlx::kernels {

enum class DType : std::uint8_t { kF32, kBF16, kF16, kS32, kS8, kU8, kI64 };
constexpr bool is_half(DType dtype) {  // the types of half precision (half.h)
  return dtype == DType::kBF16 || dtype == DType::kF16;
}
std::size_t size_of(DType dtype);
const char* name_of(DType dtype);  // "f32", "bf16", "f16", "s32", "s8", "u8", "i64"

inline constexpr int kMaxRank = 8;
struct Shape {
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> dims{};
  std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  bool operator==(const Shape&) const = default;
};

// gelu: tanh approximation (Hendrycks & Gimpel 2016); relu6: relu cut off at 6 (Krizhevsky 2010)
enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kRelu6 };

// The function of an arithmetic operation on two elements, and of a reduction of many.
enum class Arithmetic : std::uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin, kPow };
enum class Reduction : std::uint8_t { kSum, kMean, kMax, kMin };

// One integer for each of several dims. Entries from count on are 0.
struct IntList {
  std::array<std::int64_t, kMaxRank> at{};
  int count = 0;
  bool operator==(const IntList&) const = default;
};
IntList int_list(std::initializer_list<std::int64_t> values);  // at most kMaxRank

inline constexpr std::int64_t kToEnd = std::int64_t{1} << 40;  // the end of a slice: that of its dim

// An operation's parameters besides its tensors. Plain data; unused fields keep their defaults. op_list.h says which
// are read.
struct Attrs {
  Activation activation = Activation::kNone;
  std::array<std::int64_t, 2> kernel{1, 1}, stride{1, 1};
  std::array<std::int64_t, 4> pad{0, 0, 0, 0};  // top, bottom, left, right
  std::int64_t groups = 1;
  std::int64_t heads = 1;
  std::int64_t axis = 0;  // reshape and friends
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // batch norm: weight of the new statistics; SGD: momentum
  float rate = 0.0f;      // dropout probability, label smoothing
  float beta1 = 0.9f, beta2 = 0.999f, weight_decay = 0.0f;
  float scale_x = 1.0f;  // quantized: real = scale * stored (zero point 0); input
  float scale_y = 1.0f;  // quantized: output
  bool nesterov = false;
  DType output = DType::kF32;  // quantized, half: what the output is stored as (for the graph's shape rule; kernels see
                               // the shape)
  std::uint64_t stream = 0;    // Philox: which stream of random numbers this node draws
  float scale_a = 1.0f, scale_b = 1.0f;  // scaled add
  float clip = 0.0f;                     // the gradients' norm beyond which they are scaled down
  std::int64_t kv_heads = 0;  // attention: heads of keys and values, shared by groups of queries; 0: as many as heads
  float theta = 10000.0f;     // rotary positions: base of the wavelengths
  // Rotary positions: by what all turns are slowed; or, with long_context, the slow ones: those that turn less than
  // long_low times in long_context positions fully, more than long_high times not at all.
  float slow = 1.0f, long_low = 0.0f, long_high = 0.0f;
  std::int64_t long_context = 0;
  // Rotary positions: with ramp_end, pairs up to ramp_begin are not slowed, from ramp_end on fully.
  float ramp_begin = 0.0f, ramp_end = 0.0f;
  std::int64_t window = 0;  // attention: how many positions a query attends to, its own the last; 0: all up to its own
  float cap = 0.0f;         // attention, soft cap: c · tanh(x / c) bounds scores or x; 0 for none
  bool whole_example = false;   // dropout: one number for each index of the first dim (stochastic depth)
  bool tf32 = false;            // products: factors in f32 may be rounded to tf32
  float delta = 0.0f;           // regression loss: where Huber's loss becomes linear; 0 for squared error throughout
  bool pre_output = false;      // linear: output 1 is there (for the graph's shape rule; kernels see the tensor)
  IntList axes;                 // transpose: which input dim each output dim is; reduce, slice: which dims
  IntList starts, ends, steps;  // slice: for each of axes; no steps: all 1
  Arithmetic arithmetic = Arithmetic::kAdd;
  Reduction reduction = Reduction::kSum;
  bool keep_dims = false;                         // reduce: the reduced dims stay, with size 1
  bool transpose_a = false, transpose_b = false;  // matmul
  // Weights in blocks (block_type.h): the numbers of their types, and how many rows there are of each, in their order.
  IntList blocks, block_rows;
  bool operator==(const Attrs&) const = default;
};

// One operation at concrete sizes. An absent optional input has rank -1. `constants[i]` is the data of input i if it is
// known already and will not change (weights at inference, quantization scales), else null; `constants` may be null.
struct Problem {
  Op op{};
  Attrs attrs;
  int input_count = 0, output_count = 0;
  const Shape* inputs = nullptr;
  const Shape* outputs = nullptr;
  const void* const* constants = nullptr;
  // stored[i]: the half-precision type in which the known f32 weights of input i are stored, else f32; `stored` may be
  // null. A kernel may pack or read them as they are stored (Plan::packs_stored, stored_input), which takes half of the
  // memory.
  const DType* stored = nullptr;
};
inline bool stored_in_half(const Problem& problem, int input) {
  return problem.stored && is_half(problem.stored[input]);
}

// The key of random numbers, for kernels that read it from device memory.
struct RandomKey {
  std::uint64_t seed = 0, step = 0;
};

// Tensors on a device other than the host are 64-byte aligned.
struct Args {
  const void* const* inputs = nullptr;  // null for an absent one
  void* const* outputs = nullptr;       // may alias an input only if op_list.h says so
  void* workspace = nullptr;         // 64-byte aligned, workspace_bytes of the plan; contents undefined before phase 0
  const void* packed = nullptr;      // what pack() wrote
  std::uint64_t seed = 0, step = 0;  // of random numbers: Philox keyed by (seed, stream, step, element)
  const RandomKey* key = nullptr;    // CUDA: the same in the device's memory, so that captured launches can be replayed
  void* stream = nullptr;            // CUDA: where kernels are launched
};

// One of several plans that run together.
struct Call {
  const void* state = nullptr;
  Args args;
};

inline constexpr int kMaxPhases = 4;
struct Plan {
  int phases = 1;
  std::array<int, kMaxPhases> slices{1, 1, 1, 1};
  std::size_t workspace_bytes = 0;
  int packed_input = -1;   // the input that must be packed, -1 for none
  int packed_scales = -1;  // the input whose scales are packed with it, -1 for none
  std::size_t packed_bytes = 0;
  void* state = nullptr;  // owned; freed by destroy
  void (*run)(const void* state, const Args& args, int phase, int slice) = nullptr;
  // For a GPU's kernels on many small tensors, null for others: runs plans with the same function in as few launches as
  // possible. None of them writes what another reads or writes; they have one phase and no workspace.
  void (*run_many)(const Call* calls, int count) = nullptr;
  // packed: 64-byte aligned. scales: null if none are packed.
  void (*pack)(const void* state, const void* weights, const void* scales, void* packed) = nullptr;
  bool packs_stored = false;  // pack() takes weights of the type Problem::stored
  int stored_input = -1;      // the input that run() takes in the type Problem::stored, -1 for none
  // The output of pack() depends only on the weights, their scales and shape, and these numbers: two plans with the
  // same function, shape, packed_bytes and numbers can share it. -1: it depends on more and cannot be shared.
  const std::int64_t* layout = nullptr;  // owned by `state`
  int layout_count = -1;
  void (*destroy)(void* state) = nullptr;
  bool visits_host = false;  // for a device's plan: it waits for the host, so it cannot be captured
};

// A row of the table. Each backend has its own rows (backend.h).
struct Kernel {
  Op op;
  // Fills `plan` and returns true. Returns false if it does not serve this problem (dtypes, sizes, attributes).
  bool (*prepare)(const Problem& problem, Plan& plan);
};

// Owns a prepared plan, and knows whose kernel it is.
class Prepared {
 public:
  Prepared() = default;
  // `kernels`: the name of the backend whose row it is; lives as long as the process.
  Prepared(const Plan& plan, const char* kernels) : plan_(plan), kernels_(kernels) {}
  Prepared(Prepared&& other) noexcept : plan_(other.plan_), kernels_(other.kernels_) { other.plan_ = {}; }
  Prepared& operator=(Prepared&& other) noexcept {
    std::swap(plan_, other.plan_);
    std::swap(kernels_, other.kernels_);
    return *this;
  }
  ~Prepared() {
    if (plan_.destroy) plan_.destroy(plan_.state);
  }
  const Plan& plan() const { return plan_; }
  const char* kernels() const { return kernels_; }  // "onednn"

 private:
  Plan plan_{};
  const char* kernels_ = "none";
};

}  // namespace mlx::kernels
