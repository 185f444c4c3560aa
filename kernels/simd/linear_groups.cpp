// Linear layers with weights in groups (op_list.h, kLinearGroups). Phase 0 rounds the rows of x, phase 1 multiplies
// them with panels of 64 outputs. One row takes at least the time in which memory delivers the weights: with
// groups of 32, eight and a half bits for each of eight, four and a half for each of four.
//
// Packed weights: for each panel and group, the scales of its outputs, f16; then for each step of four inputs (of
// eight, two steps in one byte, if weights have four bits), four vectors of sixteen outputs, each with the four bytes
// of its step. So one row reads them as one stream. Sums of bytes are exact, so neither tiles nor instruction set
// change a bit.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kLanes = 16, kVectors = 4, kPanelOutputs = kLanes * kVectors, kStep = 4, kVectorBytes = 64;
constexpr std::int64_t kScaleBytes = kPanelOutputs * static_cast<std::int64_t>(sizeof(F16));
constexpr std::int64_t kAhead = 4096;   // bytes of weights
constexpr float kSmallest = 0x1p-100f;  // all of a group below it count as 0

struct Sizes {
  std::int64_t rows, k, n, groups, group;
  bool four;  // bits
  std::int64_t panels() const { return (n + kPanelOutputs - 1) / kPanelOutputs; }
  std::int64_t steps() const { return group / (four ? 2 * kStep : kStep); }  // of a group, as packed
  std::int64_t packed_group() const { return kScaleBytes + steps() * kVectors * kVectorBytes; }
  std::int64_t packed() const { return panels() * groups * packed_group(); }
  int offset() const { return four ? 8 : kByteOffset; }  // of packed weights
};
Sizes sizes_of(const State* s) {
  const Geometry& g = s->g;
  return {g.rows, g.in_width, g.out_width, g.groups, g.in_width / g.groups, g.w_type == DType::kU8};
}

// The workspace: x as integers; and of each group of each row the scale, and what its sums start with, which takes the
// weights' offset out again.
struct Rounded {
  std::int8_t* x;
  float* scales;
  std::int32_t* starts;
};
std::int64_t rounded_bytes(const Sizes& z) {
  return (z.rows * z.k + 63) / 64 * 64 + z.rows * z.groups * 8;
}
Rounded rounded_of(const Sizes& z, void* workspace) {
  auto* const x = static_cast<std::int8_t*>(workspace);
  auto* const scales = reinterpret_cast<float*>(x + (z.rows * z.k + 63) / 64 * 64);
  return {x, scales, reinterpret_cast<std::int32_t*>(scales + z.rows * z.groups)};
}

std::uint32_t sum_of_lanes(Ints x) {
  std::int32_t lane[kLanes];
  store(lane, x);
  std::uint32_t sum = 0;  // unsigned: of numbers that are not finite it may overflow, and is not used
  for (const std::int32_t value : lane) sum += static_cast<std::uint32_t>(value);
  return sum;
}

void round_group(const float* x, const Sizes& z, std::int8_t* to, float* scale, std::int32_t* start) {
  Floats largest = zeros(), poison = zeros();  // NaN if one of x is not finite
  for (std::int64_t i = 0; i < z.group; i += kLanes) {
    const Floats value = load(x + i);
    largest = max(abs(value), largest);
    poison = poison + (value - value);
  }
  const float most = lane_max(largest);
  const Floats inverse = broadcast(most >= kSmallest ? 127.0f / most : 0.0f);
  Ints sum = integers(0);
  for (std::int64_t i = 0; i < z.group; i += kLanes) {
    const Ints value = to_integers(load(x + i) * inverse);
    sum = sum + value;
    store_narrow(to + i, value, kLanes);
  }
  *scale = most / 127.0f + lane_sum(poison);
  *start = static_cast<std::int32_t>(-static_cast<std::uint32_t>(z.offset()) * sum_of_lanes(sum));
}

void round_rows(const Sizes& z, const float* x, const Rounded& to, Range rows) {
  for (std::int64_t i = rows.begin * z.groups; i < rows.end * z.groups; ++i)
    round_group(x + i * z.group, z, to.x + i * z.group, to.scales + i, to.starts + i);
}

struct Product {
  Sizes z;
  Rounded x;
  const std::uint8_t* packed;
  const float* bias;  // null for none
  float* y;
};

inline Ints four_of(const std::int8_t* from) {
  std::int32_t terms;
  __builtin_memcpy(&terms, from, sizeof terms);
  return integers(terms);
}

// The sums of one group. `w`: its first step.
template <bool Four, int R, int N>
inline void add_group(const Product& p, const std::uint8_t* w, const std::int8_t* x, Ints (&sum)[R][N]) {
  for (std::int64_t step = p.z.steps(); step > 0; --step, w += kVectors * kVectorBytes) {
    Ints low[N], high[N];
    if constexpr (N == kVectors) {  // few rows wait for memory: the processor itself does not read far enough ahead
      MLX_UNROLL
      for (int v = 0; v < N; ++v) __builtin_prefetch(w + kAhead + v * kVectorBytes);
    }
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
      const Ints terms = four_of(x + r * p.z.k);
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[r][v] = dot_bytes(low[v], terms, sum[r][v]);
      if constexpr (Four) {
        const Ints more = four_of(x + r * p.z.k + kStep);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[r][v] = dot_bytes(high[v], more, sum[r][v]);
      }
    }
    x += Four ? 2 * kStep : kStep;
  }
}

// R rows from `row` on, by N vectors of panel `panel` from vector `first` on.
template <bool Four, int R, int N>
void tile(const Product& p, std::int64_t panel, std::int64_t first, std::int64_t row) {
  const std::int64_t o = panel * kPanelOutputs + first * kLanes, left = p.z.n - o;
  Floats total[R][N];
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const Floats start = p.bias ? load(p.bias + o + kLanes * v, lanes(left - kLanes * v)) : zeros();
    MLX_UNROLL
    for (int r = 0; r < R; ++r) total[r][v] = start;
  }
  const std::uint8_t* w = p.packed + panel * p.z.groups * p.z.packed_group();
  for (std::int64_t group = 0; group < p.z.groups; ++group, w += p.z.packed_group()) {
    const std::int64_t at = row * p.z.groups + group;
    Ints sum[R][N];
    MLX_UNROLL
    for (int r = 0; r < R; ++r) {
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[r][v] = integers(p.x.starts[at + r * p.z.groups]);
    }
    add_group<Four, R, N>(p, w + kScaleBytes + first * kVectorBytes, p.x.x + row * p.z.k + group * p.z.group, sum);
    MLX_UNROLL
    for (int v = 0; v < N; ++v) {
      const Floats scale = load(reinterpret_cast<const F16*>(w) + (first + v) * kLanes, lanes(kLanes));
      MLX_UNROLL
      for (int r = 0; r < R; ++r)
        total[r][v] = fma(to_floats(sum[r][v]), scale * broadcast(p.x.scales[at + r * p.z.groups]), total[r][v]);
    }
  }
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) store(p.y + (row + r) * p.z.n + o + kLanes * v, total[r][v], lanes(left - kLanes * v));
  }
}

template <bool Four, int R, int N>
void some_rows(const Product& p, std::int64_t panel, std::int64_t first, std::int64_t row, std::int64_t count) {
  if constexpr (R > 1)
    if (count < R) return some_rows<Four, R - 1, N>(p, panel, first, row, count);
  tile<Four, R, N>(p, panel, first, row);
}

// Strips have nearly equal height, as in product.h.
template <bool Four, int R, int N>
void all_rows(const Product& p, std::int64_t panel) {
  const std::int64_t strips = (p.z.rows + R - 1) / R;
  for (std::int64_t first = 0; first < kVectors && panel * kPanelOutputs + first * kLanes < p.z.n; first += N)
    for (std::int64_t i = 0; i < strips; ++i) {
      const std::int64_t row = p.z.rows * i / strips;
      some_rows<Four, R, N>(p, panel, first, row, p.z.rows * (i + 1) / strips - row);
    }
}

template <bool Four>
void multiply(const Product& p, Range panels) {
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
    if constexpr (kHeld >= 32) {
      if (p.z.rows <= 2)
        all_rows<Four, 2, 4>(p, panel);
      else if (p.z.rows <= 16)
        all_rows<Four, 4, 4>(p, panel);
      else
        all_rows<Four, 6, 2>(p, panel);
    } else {
      all_rows<Four, 2, 1>(p, panel);
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
