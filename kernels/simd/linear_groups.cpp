// Linear layers with weights in groups (op_list.h, kLinearGroups). Phase 0 rounds the rows of x, phase 1 multiplies
// them with panels of 64 outputs. One row takes at least the time in which memory delivers the weights: with
// groups of 32, eight and a half bits for each of eight, four and a half for each of four.
//
// Packed weights: for each panel and group, the scales of its outputs, f16; then for each step of four inputs (of
// eight, two steps in one byte, if weights have four bits), four vectors of sixteen outputs, each with the four bytes
// of its step. So one row reads them as one stream. Sums of bytes are exact, so neither tiles nor instruction set
// change a bit.
#include <algorithm>

#include "kernels/simd/rounding.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kLanes = 16, kVectors = 4, kPanelOutputs = kLanes * kVectors, kStep = 4, kVectorBytes = 64;
constexpr std::int64_t kScaleBytes = kPanelOutputs * static_cast<std::int64_t>(sizeof(F16));
constexpr std::int64_t kSmallestGroup = 32;
constexpr std::int64_t kAhead = 4096;       // bytes of weights
constexpr std::int64_t kCached = 16 << 10;  // bytes of weights that stay in the first cache while all strips use them
constexpr std::int64_t kBlock = 96;         // rows whose sums lie beside them
constexpr int kFewRows = 4, kManyRows = 6;  // of a strip
constexpr std::int64_t kWaiting = 16;       // rows that memory may be too slow for

struct Sizes {
  std::int64_t rows, k, n, groups, group;
  bool four;               // bits
  std::int64_t chunk = 0;  // groups that all rows take before the next ones
  std::int64_t panels() const { return (n + kPanelOutputs - 1) / kPanelOutputs; }
  std::int64_t steps() const { return group / (four ? 2 * kStep : kStep); }  // of a group, as packed
  std::int64_t packed_group() const { return kScaleBytes + steps() * kVectors * kVectorBytes; }
  std::int64_t packed() const { return panels() * groups * packed_group(); }
  int offset() const { return four ? 8 : kByteOffset; }  // of packed weights
};
// Rows of a strip, which are computed together.
int height(std::int64_t rows) {
  return kHeld < 32 || rows <= 2 ? 2 : rows <= 2 * kFewRows ? kFewRows : kManyRows;
}
Sizes sizes_of(const State* s) {
  const Geometry& g = s->g;
  Sizes z{g.rows, g.in_width, g.out_width, g.groups, g.in_width / g.groups, g.w_type == DType::kU8};
  z.chunk = z.rows <= height(z.rows) ? z.groups : std::max<std::int64_t>(1, kCached / z.packed_group());
  return z;
}

// The workspace: x as integers; and of each group of each row the scale, and what its sums start with, which takes the
// weights' offset out again. All three lie by chunk of groups, row and group, in the order in which they are read.
struct Rounded {
  std::int8_t* x;
  float* scales;
  std::int32_t* starts;
};
// Where the groups of a row in the chunk that begins with group `first` lie.
Range place(const Sizes& z, std::int64_t row, std::int64_t first) {
  const std::int64_t count = std::min(z.chunk, z.groups - first), begin = z.rows * first + row * count;
  return {begin, begin + count};
}
std::int64_t rounded_bytes(const Sizes& z) {
  return (z.rows * z.k + 63) / 64 * 64 + z.rows * z.groups * 8;
}
Rounded rounded_of(const Sizes& z, void* workspace) {
  auto* const x = static_cast<std::int8_t*>(workspace);
  auto* const scales = reinterpret_cast<float*>(x + (z.rows * z.k + 63) / 64 * 64);
  return {x, scales, reinterpret_cast<std::int32_t*>(scales + z.rows * z.groups)};
}

void round_group(const float* x, const Sizes& z, std::int8_t* to, float* scale, std::int32_t* start) {
  const Rounding rounding = rounding_of(x, z.group);
  Ints sum = integers(0);
  for (std::int64_t i = 0; i < z.group; i += kLanes) sum = sum + round_sixteen(x + i, rounding.inverse, to + i);
  *scale = rounding.scale;
  *start = static_cast<std::int32_t>(-static_cast<std::uint32_t>(z.offset()) * sum_of_lanes(sum));
}

void round_rows(const Sizes& z, const float* x, const Rounded& to, Range rows) {
  const float* x_group = x + rows.begin * z.k;
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    for (std::int64_t first = 0; first < z.groups; first += z.chunk) {
      const Range there = place(z, row, first);
      for (std::int64_t at = there.begin; at < there.end; ++at, x_group += z.group)
        round_group(x_group, z, to.x + at * z.group, to.scales + at, to.starts + at);
    }
}

struct Product {
  Sizes z;
  Rounded x;
  const std::uint8_t* packed;
  const float* bias;  // null for none
  float* y;
};

// Loads so many lines of weights, which are needed later, into the first cache.
template <int Lines>
inline void fetch_lines(const std::uint8_t*& ahead) {
  MLX_UNROLL
  for (int i = 0; i < Lines; ++i) __builtin_prefetch(ahead + i * kVectorBytes);
  ahead += Lines * kVectorBytes;
}

// The sums of one group of R rows, which are `stride` bytes apart. `w`: its first step. For many rows the steps of 32
// inputs, the smallest group, are unrolled: in a loop of single steps the compiler copies every sum twice. For few
// rows, which wait for memory, that is slower; each of their steps fetches `Lines` lines, because the processor itself
// does not read far enough ahead, and computes while they come.
template <bool Four, int R, int N, int Lines>
inline void add_group(std::int64_t group, const std::uint8_t* w, const std::int8_t* x, std::int64_t stride,
                      const std::uint8_t*& ahead, Ints (&sum)[R][N]) {
  constexpr std::int64_t kInputs = Four ? 2 * kStep : kStep, kAtOnce = Lines < kVectors ? kSmallestGroup / kInputs : 1;
  for (std::int64_t i = 0; i < group; i += kAtOnce * kInputs) {
    MLX_UNROLL
    for (std::int64_t step = 0; step < kAtOnce; ++step, w += kVectors * kVectorBytes) {
      Ints low[N], high[N];
      fetch_lines<Lines>(ahead);
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        low[v] = load(reinterpret_cast<const std::int32_t*>(w + v * kVectorBytes));
        if constexpr (Four) {
          high[v] = shifted_right<4>(low[v]) & integers(0x0f0f0f0f);
          low[v] = low[v] & integers(0x0f0f0f0f);
        }
      }
      MLX_UNROLL
      for (int r = 0; r < R; ++r) {
        const Ints terms = four_of(x + r * stride);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[r][v] = dot_bytes(low[v], terms, sum[r][v]);
        if constexpr (Four) {
          const Ints more = four_of(x + r * stride + kStep);
          MLX_UNROLL
          for (int v = 0; v < N; ++v) sum[r][v] = dot_bytes(high[v], more, sum[r][v]);
        }
      }
      x += kInputs;
    }
  }
}

// A chunk of groups of some vectors, from vector `first` on, of a panel.
struct Part {
  std::int64_t panel, first, group;
};

const std::uint8_t* part_of(const Product& p, const Part& part) {
  return p.packed + (part.panel * p.z.groups + part.group) * p.z.packed_group();
}

// Has the second cache load so many bytes of weights, which are needed later. Returns what follows them.
[[maybe_unused]] const std::uint8_t* fetch(const std::uint8_t* weights, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(weights + at, 0, 2);
  return weights + bytes;
}

// The lines that a strip fetches beside those of its steps, for the scales of a group.
constexpr int scale_lines(int lines) {
  return lines == kVectors ? kScaleBytes / kVectorBytes : lines > 0 ? 1 : 0;
}

// Adds to the sums of R rows, from `row` on, what these groups give. `ahead`: where `Lines` of each step are fetched.
template <bool Four, int R, int N, int Lines>
void tile(const Product& p, const Part& part, std::int64_t row, const std::uint8_t* ahead, float* totals) {
  Floats total[R][N];
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) total[r][v] = load(totals + r * kPanelOutputs + v * kLanes);
  }
  const std::uint8_t* w = part_of(p, part);
  const Range there = place(p.z, row, part.group);
  const std::int64_t groups = there.end - there.begin;
  for (std::int64_t at = there.begin; at < there.end; ++at, w += p.z.packed_group()) {
    Ints sum[R][N];
    MLX_UNROLL
    for (int r = 0; r < R; ++r) {
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[r][v] = integers(p.x.starts[at + r * groups]);
    }
    fetch_lines<scale_lines(Lines)>(ahead);
    add_group<Four, R, N, Lines>(p.z.group, w + kScaleBytes + part.first * kVectorBytes, p.x.x + at * p.z.group,
                                 groups * p.z.group, ahead, sum);
    MLX_UNROLL
    for (int v = 0; v < N; ++v) {
      const Floats scale = load(reinterpret_cast<const F16*>(w) + (part.first + v) * kLanes, lanes(kLanes));
      MLX_UNROLL
      for (int r = 0; r < R; ++r)
        total[r][v] = fma(to_floats(sum[r][v]), scale * broadcast(p.x.scales[at + r * groups]), total[r][v]);
    }
  }
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) store(totals + r * kPanelOutputs + v * kLanes, total[r][v]);
  }
}

template <bool Four, int R, int N, int Lines>
void some_rows(const Product& p, const Part& part, std::int64_t row, std::int64_t count, const std::uint8_t* ahead,
               float* totals) {
  if constexpr (R > 1)
    if (count < R) return some_rows<Four, R - 1, N, Lines>(p, part, row, count, ahead, totals);
  tile<Four, R, N, Lines>(p, part, row, ahead, totals);
}

// Some rows by a panel: a few groups at a time, for all rows. Strips of R rows have nearly equal height, as in
// product.h. While the strips of few rows use a chunk, each fetches its share of the next one, `Lines` with each step;
// a single strip fetches what it needs itself a moment later.
template <bool Four, int R, int N, int Lines>
void multiply_block(const Product& p, std::int64_t panel, Range rows) {
  const std::int64_t o = panel * kPanelOutputs, left = p.z.n - o, count = rows.end - rows.begin;
  alignas(64) float totals[kBlock * kPanelOutputs];
  for (std::int64_t v = 0; v < kPanelOutputs; v += kLanes) {
    const Floats start = p.bias ? load(p.bias + o + v, lanes(left - v)) : zeros();
    for (std::int64_t r = 0; r < count; ++r) store(totals + r * kPanelOutputs + v, start);
  }
  const std::int64_t strips = (count + R - 1) / R, share = p.z.chunk * p.z.packed_group() * N / (strips * kVectors);
  const std::int64_t fetched = p.z.chunk * (p.z.steps() * Lines + scale_lines(Lines)) * kVectorBytes;  // by a strip
  for (std::int64_t group = 0; group < p.z.groups; group += p.z.chunk) {
    Part part{panel, 0, group};
    const std::uint8_t* next = part_of(p, part) + p.z.chunk * p.z.packed_group();
    const std::uint8_t* ahead = strips == 1 ? part_of(p, part) + kAhead : next;
    for (; part.first < kVectors && part.first * kLanes < left; part.first += N)
      for (std::int64_t i = 0; i < strips; ++i) {
        if constexpr (R == kManyRows && Lines == 0) next = fetch(next, share);
        const std::int64_t row = count * i / strips, end = count * (i + 1) / strips;
        some_rows<Four, R, N, Lines>(p, part, rows.begin + row, end - row, ahead,
                                     totals + row * kPanelOutputs + part.first * kLanes);
        ahead += fetched;
      }
  }
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t v = 0; v < kPanelOutputs && v < left; v += kLanes)
      store(p.y + (rows.begin + r) * p.z.n + o + v, load(totals + r * kPanelOutputs + v), lanes(left - v));
}

template <bool Four, int R, int N, int Lines>
void all_rows(const Product& p, std::int64_t panel) {
  for (std::int64_t row = 0; row < p.z.rows; row += kBlock)
    multiply_block<Four, R, N, Lines>(p, panel, {row, std::min(row + kBlock, p.z.rows)});
}

template <bool Four>
void multiply(const Product& p, Range panels) {
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
    if constexpr (kHeld >= 32) {
      if (p.z.rows <= 2)
        all_rows<Four, 2, 4, 4>(p, panel);
      else if (p.z.rows <= kFewRows)
        all_rows<Four, kFewRows, 4, 4>(p, panel);
      else if (p.z.rows <= 2 * kFewRows)
        all_rows<Four, kFewRows, 4, 2>(p, panel);
      else if (p.z.rows <= kWaiting)
        all_rows<Four, kManyRows, 2, 1>(p, panel);
      else
        all_rows<Four, kManyRows, 2, 0>(p, panel);
    } else {
      all_rows<Four, 2, 1, 0>(p, panel);
    }
  }
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Sizes z = sizes_of(s);
  const Range items = range_of(s, phase, slice);
  const Rounded x = rounded_of(z, args.workspace);
  if (phase == 0) return round_rows(z, f32_in(s, args, 0), x, items);
  const Product p{z, x, static_cast<const std::uint8_t*>(args.packed), f32_in(s, args, 3), f32_out(s, args, 0)};
  z.four ? multiply<true>(p, items) : multiply<false>(p, items);
}

constexpr std::uint32_t kOffsets = 0x01010101u * kByteOffset;  // that of each byte; 0 or 128

// The four bytes of a step, as packed. `weights`: four of eight bits, or eight of four.
std::uint32_t packed_step(bool four, const std::uint8_t* weights) {
  std::uint32_t stored;
  __builtin_memcpy(&stored, weights, sizeof stored);
  if (!four) return stored ^ kOffsets;
  const auto spread = [](std::uint32_t nibbles) {  // four of them, each to a byte of its own
    nibbles = (nibbles | nibbles << 8) & 0x00ff00ff;
    return (nibbles | nibbles << 4) & 0x0f0f0f0f;
  };
  return spread(stored & 0xffff) | spread(stored >> 16) << 4;
}

void pack_group(const Sizes& z, const std::uint8_t* weights, const F16* scales, std::int64_t panel, std::int64_t group,
                std::uint8_t* to) {
  const std::int64_t row_bytes = z.four ? z.k / 2 : z.k, left = z.n - panel * kPanelOutputs;
  const std::int64_t outputs = left < kPanelOutputs ? left : kPanelOutputs;
  __builtin_memset(to, 0, static_cast<std::size_t>(kScaleBytes));
  __builtin_memcpy(to, scales + group * z.n + panel * kPanelOutputs, static_cast<std::size_t>(outputs) * sizeof(F16));
  to += kScaleBytes;
  const std::uint32_t nothing = z.four ? 0x88888888 : kOffsets;  // outputs that only fill the panel
  for (std::int64_t i = 0; i < kPanelOutputs; ++i) {
    const std::uint8_t* const row = weights + (panel * kPanelOutputs + i) * row_bytes + group * (row_bytes / z.groups);
    for (std::int64_t step = 0; step < z.steps(); ++step) {
      const std::uint32_t bytes = i < outputs ? packed_step(z.four, row + step * kStep) : nothing;
      __builtin_memcpy(to + (step * kPanelOutputs + i) * kStep, &bytes, sizeof bytes);
    }
  }
}

void pack(const void* opaque, const void* weights, const void* scales, void* packed) {
  const Sizes z = sizes_of(state_of(opaque));
  auto* to = static_cast<std::uint8_t*>(packed);
  for (std::int64_t panel = 0; panel < z.panels(); ++panel)
    for (std::int64_t group = 0; group < z.groups; ++group, to += z.packed_group())
      pack_group(z, static_cast<const std::uint8_t*>(weights), static_cast<const F16*>(scales), panel, group, to);
}

}  // namespace

bool prepare_linear_groups(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward, Takes::kHalf);
  if (!s) return false;
  const Sizes z = sizes_of(s);
  cut(s, plan, 0, z.rows, z.rows * z.k * 5);
  cut(s, plan, 1, z.panels(), z.packed() * (z.rows / 8 + 1));
  plan.workspace_bytes = static_cast<std::size_t>(rounded_bytes(z));
  plan.packed_input = 1;
  plan.packed_scales = 2;
  plan.packed_bytes = static_cast<std::size_t>(z.packed());
  plan.pack = pack;
  plan.layout_count = 0;
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
