// Linear layers with weights in blocks (op_list.h, kLinearBlocks). Phase 0 rounds the rows of x, phase 1 multiplies
// them with panels of 16 outputs. One row takes at least the time in which memory delivers the weights, about as many
// bits as in the file.
//
// Packed weights: for each run of rows of a type, panel and block of inputs the scales of the outputs and what they are
// lowered by, f16; their parts, a byte each; then for each 32 inputs planes of eight, four, two and one bits. A plane
// has a vector of sixteen outputs for as many steps of four inputs as fit into it, each output with the four bytes of a
// step. So a panel is one stream, and a vector of weights is there after few operations. Sums of integers are exact, so
// neither tiles nor instruction set change a bit.
#include "kernels/block_type.h"
#include "kernels/simd/rounding.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kOutputs = 16, kInputs = 32, kSteps = 8, kPlane = 64;
constexpr std::int64_t kFetched = 2048;             // bytes of weights that are fetched ahead
constexpr int kRowsTogether = kHeld >= 32 ? 8 : 4;  // that use a vector of weights as soon as it is there

// What each type is made of: its planes of bits, how many parts 32 inputs have, and how many 32 inputs a block. A small
// block has a part of 1, which is not stored, and no gap behind its scales.
struct Form {
  bool eights, fours, twos, ones, lowered;
  std::int64_t parts;
  int offset;
  std::int64_t groups;
  constexpr bool small() const { return groups == 1; }
  constexpr std::int64_t planes() const { return (eights ? 8 : 0) + (fours ? 4 : 0) + (twos ? 2 : 0) + (ones ? 1 : 0); }
  constexpr std::int64_t part_bytes() const { return small() ? 0 : groups * parts * kOutputs; }
  constexpr std::int64_t head() const {
    const std::int64_t bytes = (lowered ? 2 : 1) * (kOutputs * 2 + part_bytes());
    return small() ? bytes : (bytes + kPlane - 1) / kPlane * kPlane;
  }
  constexpr std::int64_t bytes() const { return head() + groups * planes() * kPlane; }  // of a panel's block
};
constexpr Form form_of(std::int64_t number) {
  constexpr std::int64_t kLarge = kBlockWeights / kInputs;
  switch (number) {
    case kQ4_0:
      return {false, true, false, false, false, 1, 8, 1};
    case kQ4_1:
      return {false, true, false, false, true, 1, 0, 1};
    case kQ5_0:
      return {false, true, false, true, false, 1, 16, 1};
    case kQ5_1:
      return {false, true, false, true, true, 1, 0, 1};
    case kQ8_0:
      return {true, false, false, false, false, 1, kByteOffset, 1};
    case kQ2K:
      return {false, false, true, false, true, 2, 0, kLarge};
    case kQ3K:
      return {false, false, true, true, false, 2, 4, kLarge};
    case kQ4K:
      return {false, true, false, false, true, 1, 0, kLarge};
    case kQ5K:
      return {false, true, false, true, true, 1, 0, kLarge};
    default:
      return {false, true, true, false, false, 2, 32, kLarge};
  }
}

// Calls body for the constants first, first + 1 … end-1.
template <int kFirst, int kEnd, typename Body>
inline void each_constant(Body body) {
  if constexpr (kFirst < kEnd) {
    body.template operator()<kFirst>();
    each_constant<kFirst + 1, kEnd>(body);
  }
}
template <int kLeft>
inline Ints moved(Ints x) {
  if constexpr (kLeft >= 0)
    return shifted_left<kLeft>(x);
  else
    return shifted_right<-kLeft>(x);
}

inline Ints plane_of(const std::uint8_t* from) {
  return load(reinterpret_cast<const std::int32_t*>(from));
}

// The bytes of 32 inputs, four in each step.
template <std::int64_t kNumber>
inline void weights_of(const std::uint8_t* w, Ints (&step)[kSteps]) {
  constexpr Form kForm = form_of(kNumber);
  constexpr int kEach = 0x01010101;
  if constexpr (kForm.eights) {
    MLX_UNROLL
    for (int i = 0; i < kSteps; ++i, w += kPlane) step[i] = plane_of(w);
  }
  if constexpr (kForm.fours) {
    MLX_UNROLL
    for (int i = 0; i < 4; ++i, w += kPlane) {
      const Ints both = plane_of(w);
      step[2 * i] = both & integers(15 * kEach), step[2 * i + 1] = shifted_right<4>(both) & integers(15 * kEach);
    }
  }
  if constexpr (kForm.twos) {
    constexpr int kPlace = kForm.fours ? 4 : 0;
    const Ints both[2] = {plane_of(w), plane_of(w + kPlane)};
    w += 2 * kPlane;
    each_constant<0, kSteps>([&]<int kStep>() {
      const Ints bits = moved<kPlace - 2 * (kStep % 4)>(both[kStep / 4]) & integers((3 << kPlace) * kEach);
      step[kStep] = kForm.fours ? step[kStep] ^ bits : bits;
    });
  }
  if constexpr (kForm.ones) {
    constexpr int kPlace = kForm.fours ? 4 : 2;
    const Ints all = plane_of(w);
    each_constant<0, kSteps>([&]<int kStep>() {
      step[kStep] = step[kStep] ^ (moved<kPlace - kStep>(all) & integers((1 << kPlace) * kEach));
    });
  }
}

// What is known of 32 numbers of a row of x beside their integers: the scale; the sums of the integers in each half;
// and these sums, and that of both, times the scale.
struct RowGroup {
  float scale, whole, half[2];
  std::int32_t sums[2];
};

struct BlockSizes {
  std::int64_t rows, k, n;
  std::int64_t groups() const { return k / kInputs; }
  std::int64_t rounded_bytes() const { return (rows * k + 63) / 64 * 64; }
};
BlockSizes block_sizes(const State* s) {
  return {s->g.rows, s->g.in_width, s->g.out_width};
}
std::int64_t panels_of(std::int64_t outputs) {
  return (outputs + kOutputs - 1) / kOutputs;
}

struct BlockProduct {
  BlockSizes z;
  const std::int8_t* x;
  const RowGroup* groups;
  const float* bias;  // null for none
  float* y;
};

void round_block_rows(const BlockSizes& z, const float* x, std::int8_t* to, RowGroup* groups, Range rows) {
  for (std::int64_t at = rows.begin * z.groups(); at < rows.end * z.groups(); ++at) {
    const float* from = x + at * kInputs;
    const Rounding rounding = rounding_of(from, kInputs);
    RowGroup group{rounding.scale, 0, {}, {}};
    for (int half = 0; half < 2; ++half) {
      const Ints rounded = round_sixteen(from + half * 16, rounding.inverse, to + at * kInputs + half * 16);
      group.sums[half] = static_cast<std::int32_t>(sum_of_lanes(rounded));
      group.half[half] = group.scale * static_cast<float>(group.sums[half]);
    }
    const auto both = static_cast<std::uint32_t>(group.sums[0]) + static_cast<std::uint32_t>(group.sums[1]);
    group.whole = group.scale * static_cast<float>(static_cast<std::int32_t>(both));
    groups[at] = group;
  }
}

// 32 inputs of R rows, which are z.groups() groups apart.
template <std::int64_t kNumber, int R>
inline void add_inputs(const BlockSizes& z, const Ints (&step)[kSteps], const Floats (&by)[2], const Floats (&lower)[2],
                       const std::int8_t* x, const RowGroup* groups, Floats (&total)[R]) {
  constexpr Form kForm = form_of(kNumber);
  constexpr int kParts = static_cast<int>(kForm.parts), kOfPart = static_cast<int>(kSteps) / kParts;
  MLX_UNROLL
  for (int r = 0; r < R; ++r, x += z.k, groups += z.groups()) {
    MLX_UNROLL
    for (int part = 0; part < kParts; ++part) {
      // Unsigned: of numbers that are not finite the sums are anything, and are not used.
      const auto of_x = static_cast<std::uint32_t>(groups->sums[part]) +
                        (kParts == 1 ? static_cast<std::uint32_t>(groups->sums[1]) : 0);
      const auto start = -static_cast<std::uint32_t>(kForm.offset) * of_x;
      Ints sum = integers(kForm.offset > 0 ? static_cast<std::int32_t>(start) : 0);
      MLX_UNROLL
      for (int i = 0; i < kOfPart; ++i) {
        const Ints &w = step[part * kOfPart + i], four = four_of(x + 4 * (part * kOfPart + i));
        sum = kForm.eights ? dot_bytes(w, four, sum) : dot_unsigned(w, four, sum);
      }
      total[r] = fma(to_floats(sum), by[part] * broadcast(groups->scale), total[r]);
      if constexpr (kForm.lowered)
        total[r] = fnma(lower[part], broadcast(kParts == 1 ? groups->whole : groups->half[part]), total[r]);
    }
  }
}

// A panel of outputs from `o` on, of which `left` exist; and where weights lie that are needed later.
struct BlockPart {
  const std::uint8_t* w;
  std::int64_t o, left;
  const std::uint8_t* ahead;
};

// R rows, from `row` on, by a panel. While they use it, `Lines` of what is needed later are fetched for each 32 inputs,
// because the processor itself does not read far enough ahead.
template <std::int64_t kNumber, int R, int Lines>
void block_tile(const BlockProduct& p, const BlockPart& part, std::int64_t row) {
  constexpr Form kForm = form_of(kNumber);
  const std::uint8_t *w = part.w, *ahead = part.ahead;
  const std::int64_t o = part.o, left = part.left;
  const Mask there = lanes(left);
  Floats total[R];
  MLX_UNROLL
  for (int r = 0; r < R; ++r) total[r] = p.bias ? load(p.bias + o, there) : zeros();
  const std::int8_t* x = p.x + row * p.z.k;
  const RowGroup* groups = p.groups + row * p.z.groups();
  const std::int64_t blocks = p.z.groups() / kForm.groups;
  for (std::int64_t block = 0; block < blocks; ++block, w += kForm.bytes()) {
    const Floats scale = load(reinterpret_cast<const F16*>(w), lanes(kOutputs));
    const Floats low = kForm.lowered ? load(reinterpret_cast<const F16*>(w) + kOutputs, lanes(kOutputs)) : zeros();
    const std::uint8_t *parts = w + (kForm.lowered ? 2 : 1) * kOutputs * 2, *planes = w + kForm.head();
    for (std::int64_t group = 0; group < kForm.groups; ++group, x += kInputs, ++groups) {
      MLX_UNROLL
      for (int line = 0; line < Lines; ++line, ahead += kPlane) __builtin_prefetch(ahead);
      Ints step[kSteps];
      weights_of<kNumber>(planes, step);
      Floats by[2] = {scale}, lower[2] = {low};
      if constexpr (!kForm.small()) {
        MLX_UNROLL
        for (int of = 0; of < static_cast<int>(kForm.parts); ++of, parts += kOutputs) {
          by[of] = scale * to_floats(load_narrow<true>(parts, kOutputs));
          if constexpr (kForm.lowered)
            lower[of] = low * to_floats(load_narrow<false>(parts + kForm.part_bytes(), kOutputs));
        }
      }
      add_inputs<kNumber, R>(p.z, step, by, lower, x, groups, total);
      planes += kForm.planes() * kPlane;
    }
  }
  MLX_UNROLL
  for (int r = 0; r < R; ++r) store(p.y + (row + r) * p.z.n + o, total[r], there);
}

template <std::int64_t kNumber, int R, int Lines>
void block_rows(const BlockProduct& p, const BlockPart& part, Range rows) {
  if constexpr (R > 1)
    if (rows.end - rows.begin < R) return block_rows<kNumber, R - 1, Lines>(p, part, rows);
  block_tile<kNumber, R, Lines>(p, part, rows.begin);
}

// All rows by a panel, in strips of nearly equal height. A single strip fetches what it needs itself a moment later; of
// two, each fetches half of the next panel; more of them use a panel for so long that it comes by itself.
template <std::int64_t kNumber>
void multiply_panel(const BlockProduct& p, const std::uint8_t* packed, std::int64_t panel, std::int64_t first_output,
                    std::int64_t outputs) {
  constexpr Form kForm = form_of(kNumber);
  constexpr std::int64_t kPlanesOfGroup = kPlane * kForm.groups;
  constexpr int kLines = static_cast<int>((kForm.bytes() + kPlanesOfGroup - 1) / kPlanesOfGroup),
                kHalf = (kLines + 1) / 2;
  const std::int64_t bytes = p.z.groups() / kForm.groups * kForm.bytes(), o = panel * kOutputs;
  const std::int64_t strips = (p.z.rows + kRowsTogether - 1) / kRowsTogether;
  const std::uint8_t* const w = packed + panel * bytes;
  BlockPart part{w, first_output + o, outputs - o, strips == 1 ? w + kFetched : w + bytes};
  for (std::int64_t i = 0; i < strips; ++i, part.ahead += p.z.groups() * kHalf * kPlane) {
    const Range rows{p.z.rows * i / strips, p.z.rows * (i + 1) / strips};
    if (strips == 1)
      block_rows<kNumber, kRowsTogether, kLines>(p, part, rows);
    else if (strips == 2)
      block_rows<kNumber, kRowsTogether, kHalf>(p, part, rows);
    else
      block_rows<kNumber, kRowsTogether, 0>(p, part, rows);
  }
}

using MultiplyPanel = void (*)(const BlockProduct&, const std::uint8_t*, std::int64_t, std::int64_t, std::int64_t);
MultiplyPanel multiplier_of(std::int64_t number) {
  switch (number) {
    case kQ4_0:
      return multiply_panel<kQ4_0>;
    case kQ4_1:
      return multiply_panel<kQ4_1>;
    case kQ5_0:
      return multiply_panel<kQ5_0>;
    case kQ5_1:
      return multiply_panel<kQ5_1>;
    case kQ8_0:
      return multiply_panel<kQ8_0>;
    case kQ2K:
      return multiply_panel<kQ2K>;
    case kQ3K:
      return multiply_panel<kQ3K>;
    case kQ4K:
      return multiply_panel<kQ4K>;
    case kQ5K:
      return multiply_panel<kQ5K>;
    default:
      return multiply_panel<kQ6K>;
  }
}

// Of a panel of outputs of a run, packed.
std::int64_t panel_bytes(const Geometry& g, int run) {
  const Form form = form_of(g.part_type[run]);
  return g.in_width / kInputs / form.groups * form.bytes();
}

// Calls body(run, its first packed byte, its first panel) for each run, and returns how many panels there are.
template <typename Body>
std::int64_t each_run(const Geometry& g, Body body) {
  std::int64_t bytes = 0, panels = 0;
  for (int run = 0; run < g.parts; ++run) {
    body(run, bytes, panels);
    panels += panels_of(g.part_size[run]);
    bytes += panels_of(g.part_size[run]) * panel_bytes(g, run);
  }
  return panels;
}

void forward_blocks(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const BlockSizes z = block_sizes(s);
  const Range items = range_of(s, phase, slice);
  auto* const x = static_cast<std::int8_t*>(args.workspace);
  auto* const groups = reinterpret_cast<RowGroup*>(x + z.rounded_bytes());
  if (phase == 0) return round_block_rows(z, f32_in(s, args, 0), x, groups, items);
  const BlockProduct p{z, x, groups, f32_in(s, args, 2), f32_out(s, args, 0)};
  const auto* const packed = static_cast<const std::uint8_t*>(args.packed);
  each_run(s->g, [&](int run, std::int64_t bytes, std::int64_t first) {
    const MultiplyPanel multiply = multiplier_of(s->g.part_type[run]);
    const std::int64_t outputs = s->g.part_size[run], end = first + panels_of(outputs);
    for (std::int64_t panel = items.begin > first ? items.begin : first; panel < items.end && panel < end; ++panel)
      multiply(p, packed + bytes, panel - first, s->g.part_row[run], outputs);
  });
}

// Writes the planes of output `output` for 32 integers at `from`, four bytes at a time.
void pack_integers(const Form& form, const std::uint8_t* from, std::int64_t output, std::uint8_t* planes) {
  constexpr std::uint32_t kEach = 0x01010101;
  std::uint32_t eights[kSteps], fours[4] = {}, twos[2] = {}, ones = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::uint32_t four;
    __builtin_memcpy(&four, from + step * 4, sizeof four);
    eights[step] = four ^ (128 - kByteOffset) * kEach;
    fours[step / 2] |= (four & 15 * kEach) << (step % 2 * 4);
    twos[step / 4] |= (four >> (form.fours ? 4 : 0) & 3 * kEach) << (step % 4 * 2);
    ones |= (four >> (form.fours ? 4 : 2) & kEach) << step;
  }
  const auto put = [&](const std::uint32_t& word) {
    __builtin_memcpy(planes + output * 4, &word, sizeof word);
    planes += kPlane;
  };
  for (std::int64_t i = 0; form.eights && i < kSteps; ++i) put(eights[i]);
  for (int i = 0; form.fours && i < 4; ++i) put(fours[i]);
  for (int i = 0; form.twos && i < 2; ++i) put(twos[i]);
  if (form.ones) put(ones);
}

void pack_output(const BlockType& type, const std::uint8_t* block, std::int64_t output, std::uint8_t* to) {
  const Form form = form_of(type.number);
  UnpackedBlock unpacked;
  unpack_block(type, block, unpacked);
  auto* const scales = reinterpret_cast<F16*>(to);
  scales[output] = unpacked.scale;
  if (form.lowered) scales[kOutputs + output] = unpacked.low;
  std::uint8_t* const parts = to + (form.lowered ? 2 : 1) * kOutputs * 2;
  for (std::int64_t part = 0; !form.small() && part < form.groups * form.parts; ++part) {
    parts[part * kOutputs + output] = static_cast<std::uint8_t>(unpacked.parts[part]);
    if (form.lowered) parts[form.part_bytes() + part * kOutputs + output] = unpacked.lows[part];
  }
  for (std::int64_t group = 0; group < form.groups; ++group)
    pack_integers(form, unpacked.integers + group * kInputs, output, to + form.head() + group * form.planes() * kPlane);
}

void pack_blocks(const void* opaque, const void* weights, const void*, void* packed) {
  const State* s = state_of(opaque);
  each_run(s->g, [&](int run, std::int64_t bytes, std::int64_t) {
    const BlockType& type = *find_block_type(s->g.part_type[run]);
    const Form form = form_of(type.number);
    const std::int64_t blocks = s->g.in_width / type.weights;
    const auto* from = static_cast<const std::uint8_t*>(weights) + s->g.part_begin[run];
    std::uint8_t* const to = static_cast<std::uint8_t*>(packed) + bytes;
    const std::int64_t rows = s->g.part_size[run];
    __builtin_memset(to, 0, static_cast<std::size_t>(panels_of(rows) * blocks * form.bytes()));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t block = 0; block < blocks; ++block, from += type.bytes)
        pack_output(type, from, row % kOutputs, to + (row / kOutputs * blocks + block) * form.bytes());
  });
}

}  // namespace

bool prepare_linear_blocks(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward_blocks);
  if (!s) return false;
  const BlockSizes z = block_sizes(s);
  std::int64_t packed = 0;
  for (int run = 0; run < s->g.parts; ++run) packed += panels_of(s->g.part_size[run]) * panel_bytes(s->g, run);
  const std::int64_t panels = each_run(s->g, [](int, std::int64_t, std::int64_t) {});
  cut(s, plan, 0, z.rows, z.rows * z.k * 5);
  cut(s, plan, 1, panels, packed * (z.rows / 8 + 1));
  plan.workspace_bytes = bytes_of(z.rounded_bytes(), 1) + bytes_of(z.rows * z.groups(), sizeof(RowGroup));
  plan.packed_input = 1;
  plan.packed_bytes = static_cast<std::size_t>(packed);
  plan.pack = pack_blocks;
  plan.layout = s->g.layout;
  plan.layout_count = 1 + 2 * s->g.parts;
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
