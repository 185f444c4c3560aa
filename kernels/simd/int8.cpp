// Quantized linear layers and convolutions with one group: u8|s8 by s8 to u8|s8|f32. Rows of x, or windows of an image,
// are multiplied with packed weights as in product.h. Sums of bytes are exact, so neither the blocks nor the
// instruction set changes a bit.
//
// x is copied as Terms (vector.h) with an image's padding, unless windows can read it directly. Each row of the kernel
// is padded to whole dots with zero weights, so what x holds there does not matter. If Terms have 128 added, the sums
// start at -128 times the sum of the weights.
#include "kernels/simd/bytes.h"
#include "kernels/simd/product.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// A problem as lines of results. All rows of a linear layer or a 1x1 convolution are one line.
struct Lines {
  std::int64_t images, high, wide;       // lines per image, results per line
  std::int64_t segments, run, channels;  // rows of a kernel, terms per row; width of the results
  std::int64_t step_h, step_w, x_high, x_wide, pixel, top, left;
  bool plain;  // no window extends over the image's edge

  std::int64_t dots() const { return (run + kTerms - 1) / kTerms; }  // of a segment
  std::int64_t padded() const { return rounded_up(channels, 16); }
};
Lines lines_of(Op op, const Geometry& g) {
  if (op == Op::kLinear) return {1, 1, g.rows, 1, g.in_width, g.out_width, 1, 1, 1, g.rows, g.in_width, 0, 0, true};
  const bool plain = g.pt == 0 && g.pl == 0 && (g.oh - 1) * g.sh + g.kh <= g.h && (g.ow - 1) * g.sw + g.kw <= g.w;
  if (g.kh == 1 && g.kw == 1 && g.sh == 1 && g.sw == 1 && plain && g.oh == g.h && g.ow == g.w) {
    const std::int64_t pixels = g.n * g.h * g.w;
    return {1, 1, pixels, 1, g.c, g.o, 1, 1, 1, pixels, g.c, 0, 0, true};
  }
  return {g.n, g.oh, g.ow, g.kh, g.kw * g.c, g.o, g.sh, g.sw, g.h, g.w, g.c, g.pt, g.pl, plain};
}
Op op_of(const State* s) {
  return s->g.oh > 0 ? Op::kConv2d : Op::kLinear;
}

// If the whole problem is one line, a slice takes as many results at once as its copy of x has room for.
constexpr std::int64_t kRowsAtOnce = 96;
bool is_one_line(const Lines& l) {
  return l.images == 1 && l.high == 1 && l.segments == 1 && l.step_w == 1 && l.pixel == l.run;
}
// True if windows can read x directly: bytes as unsigned terms, with runs that are whole dots.
bool reads_plain(const Lines& l, DType x) {
  return sizeof(Term) == 1 && x == DType::kU8 && l.plain && l.run % kTerms == 0;
}

// A slice's copy of x: a pixel, or a row of x, begins every `pixel` terms.
struct Copied {
  std::int64_t rows, wide, pixel;
  std::int64_t row() const { return wide * pixel; }
  std::int64_t terms() const { return rounded_up(rows * row() + kTerms, 64); }
};
Copied copied(const Lines& l) {
  if (is_one_line(l)) return {1, kRowsAtOnce, l.dots() * kTerms};
  const std::int64_t high = l.high > 0 ? (l.high - 1) * l.step_h + l.segments : 0;
  const std::int64_t reach = l.wide > 0 ? (l.wide - 1) * l.step_w + l.run / l.pixel : 0;
  return {high, reach, l.pixel};
}
std::int64_t slice_bytes(const Lines& l, DType x) {
  const std::int64_t terms = reads_plain(l, x) ? 0 : copied(l).terms() * static_cast<std::int64_t>(sizeof(Term));
  return terms + epilogue_floats(l.channels) * 4;
}

void fill(Term* to, std::int64_t count, Term value) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = value;
}

// Windows `step` terms apart, with kernel rows `jump` apart, times a panel of weights.
struct Tile {
  const Term* x;
  std::int64_t step, jump, segments, dots;
  const std::int32_t* w;
  const std::int32_t* start;
  Epilogue epilogue;
  std::int64_t o, left;  // the panel's first channel, and the number of channels from there on
  void* y;
  std::int64_t y_at, y_step;
};

inline Ints broadcast_terms(const Term* from) {
  std::int32_t terms;
  __builtin_memcpy(&terms, from, sizeof terms);
  return integers(terms);
}

// Computes R results in N vectors of channels, from result `first` on.
template <int R, int N, DType Y, bool Gelu>
void results(const Tile& t, std::int64_t first) {
  Ints sum[R][N];
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const Ints start = load(t.start + 16 * v);
    MLX_UNROLL
    for (int r = 0; r < R; ++r) sum[r][v] = start;
  }
  const std::int32_t* w = t.w;
  for (std::int64_t segment = 0; segment < t.segments; ++segment) {
    const Term* x = t.x + first * t.step + segment * t.jump;
    for (std::int64_t d = t.dots; d > 0; --d, x += kTerms, w += 16 * N) {
      Ints weights[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) weights[v] = load(w + 16 * v);
      MLX_UNROLL
      for (int r = 0; r < R; ++r) {
        const Ints terms = broadcast_terms(x + r * t.step);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[r][v] = dot(terms, weights[v], sum[r][v]);
      }
    }
  }
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v)
      store_sums<Y, Gelu>(t.epilogue, sum[r][v], t.o + 16 * v, t.y, t.y_at + (first + r) * t.y_step + 16 * v,
                          t.left - 16 * v);
  }
}

template <int R, int N, DType Y, bool Gelu>
void some_results(const Tile& t, std::int64_t first, std::int64_t count) {
  if constexpr (R > 1)
    if (count < R) return some_results<R - 1, N, Y, Gelu>(t, first, count);
  results<R, N, Y, Gelu>(t, first);
}
// Strips have nearly equal height, as in product.h.
template <int N, DType Y, bool Gelu>
void all_results(const Tile& t, std::int64_t count) {
  constexpr int kMost = most_rows(N);
  const std::int64_t strips = (count + kMost - 1) / kMost;
  for (std::int64_t i = 0; i < strips; ++i) {
    const std::int64_t first = count * i / strips;
    some_results<kMost, N, Y, Gelu>(t, first, count * (i + 1) / strips - first);
  }
}
template <DType Y, bool Gelu>
void line(const Tile& t, std::int64_t count) {
  if constexpr (kWide > 1) {
    if (t.left > 48) return all_results<4, Y, Gelu>(t, count);
    if (t.left > 32) return all_results<3, Y, Gelu>(t, count);
    if (t.left > 16) return all_results<2, Y, Gelu>(t, count);
  }
  all_results<1, Y, Gelu>(t, count);
}

// `lines` lines of `wide` results each, times all panels.
struct Block {
  const Term* x;
  std::int64_t row, pixel;  // terms between rows and between pixels of x
  std::int64_t lines, wide, y_at;
};
template <DType Y, bool Gelu>
void multiply_block(const Lines& l, const Args& args, const Epilogue& epilogue, const Block& b) {
  const std::int64_t terms = l.segments * l.dots();
  const auto* packed = static_cast<const std::int32_t*>(args.packed);
  const std::int32_t* start = packed + terms * l.padded();
  for (std::int64_t o = 0; o < l.channels; o += kPanel)
    for (std::int64_t h = 0; h < b.lines; ++h)
      line<Y, Gelu>({b.x + h * l.step_h * b.row, l.step_w * b.pixel, b.row, l.segments, l.dots(), packed + o * terms,
                     start + o, epilogue, o, smaller(l.channels - o, kPanel), args.outputs[0],
                     b.y_at + h * b.wide * l.channels + o, l.channels},
                    b.wide);
}

template <bool Signed, DType Y, bool Gelu>
void rows_of_line(const State* s, const Lines& l, const Args& args, const Epilogue& epilogue, Term* copy, Range rows) {
  const Copied place = copied(l);
  const auto* x = static_cast<const std::uint8_t*>(args.inputs[0]);
  const bool plain = reads_plain(l, s->g.x_type);
  for (std::int64_t first = rows.begin; first < rows.end; first += kRowsAtOnce) {
    const std::int64_t count = smaller(kRowsAtOnce, rows.end - first);
    const std::uint8_t* from = x + first * l.run;
    if (!plain)
      for (std::int64_t r = 0; r < count; ++r) {
        copy_terms<Signed>(from + r * l.run, copy + r * place.pixel, l.run);
        fill(copy + r * place.pixel + l.run, place.pixel - l.run, 0);
      }
    multiply_block<Y, Gelu>(l, args, epilogue,
                            {plain ? reinterpret_cast<const Term*>(from) : copy, 0, plain ? l.run : place.pixel, 1,
                             count, first * l.channels});
  }
}

// Copies rows [begin, end) of an image as windows read it.
template <bool Signed>
void copy_image(const Lines& l, const Copied& place, const std::uint8_t* x, Range rows, Term* to) {
  const std::int64_t before = smaller(l.left, place.wide);
  std::int64_t end = smaller(place.wide, l.x_wide + l.left);
  if (end < before) end = before;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    Term* row = to + r * place.row();
    const std::int64_t from = r - l.top;
    if (from < 0 || from >= l.x_high) {
      fill(row, place.row(), kNoTerm<Signed>);
      continue;
    }
    fill(row, before * l.pixel, kNoTerm<Signed>);
    copy_terms<Signed>(x + (from * l.x_wide + before - l.left) * l.pixel, row + before * l.pixel,
                       (end - before) * l.pixel);
    fill(row + end * l.pixel, (place.wide - end) * l.pixel, kNoTerm<Signed>);
  }
}

template <bool Signed, DType Y, bool Gelu>
void windows(const State* s, const Lines& l, const Args& args, const Epilogue& epilogue, Term* copy, Range lines) {
  const Copied place = copied(l);
  const bool plain = reads_plain(l, s->g.x_type);
  for (std::int64_t at = lines.begin; at < lines.end;) {
    const std::int64_t n = at / l.high, begin = at - n * l.high, end = smaller(lines.end - n * l.high, l.high);
    const auto* x = static_cast<const std::uint8_t*>(args.inputs[0]) + n * l.x_high * l.x_wide * l.pixel;
    if (!plain) copy_image<Signed>(l, place, x, {begin * l.step_h, (end - 1) * l.step_h + l.segments}, copy);
    const Term* from = plain ? reinterpret_cast<const Term*>(x) : copy;
    const std::int64_t row = plain ? l.x_wide * l.pixel : place.row();
    multiply_block<Y, Gelu>(
        l, args, epilogue,
        {from + begin * l.step_h * row, row, l.pixel, end - begin, l.wide, at * l.wide * l.channels});
    at += end - begin;
  }
}

template <bool Signed>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Lines l = lines_of(op_of(s), s->g);
  auto* factors = reinterpret_cast<float*>(static_cast<char*>(args.workspace) + s->slice_bytes * slice);
  const Epilogue epilogue = make_epilogue(s, args, l.channels, factors);
  auto* copy = reinterpret_cast<Term*>(factors + epilogue_floats(l.channels));
  const Range items = range_of(s, phase, slice);
  by_result(s->g.y_type, s->attrs.activation, [&]<DType Y, bool Gelu>() {
    if (is_one_line(l))
      rows_of_line<Signed, Y, Gelu>(s, l, args, epilogue, copy, {items.begin * 16, smaller(items.end * 16, l.wide)});
    else
      windows<Signed, Y, Gelu>(s, l, args, epilogue, copy, items);
  });
}

// Packs w[O, segments, run] as panels of dots, then the initial values of the sums.
template <bool Signed>
void pack(const void* opaque, const void* weights, const void*, void* packed) {
  const State* s = state_of(opaque);
  const Lines l = lines_of(op_of(s), s->g);
  const std::int64_t dots = l.segments * l.dots(), row = l.segments * l.run;
  const auto* w = static_cast<const std::int8_t*>(weights);
  auto* start = static_cast<std::int32_t*>(packed) + dots * l.padded();
  for (std::int64_t o = 0; o < l.padded(); ++o) {
    const std::int64_t panel = o / kPanel * kPanel, width = panel_width(l.channels, panel);
    auto* to = static_cast<Weight*>(packed) + (panel * dots + o - panel) * kTerms;
    std::int32_t sum = 0;
    for (std::int64_t segment = 0; segment < l.segments; ++segment)
      for (std::int64_t d = 0; d < l.dots(); ++d, to += width * kTerms)
        for (std::int64_t i = 0; i < kTerms; ++i) {
          const std::int64_t term = d * kTerms + i;
          const std::int8_t weight =
              o < l.channels && term < l.run ? w[o * row + segment * l.run + term] : std::int8_t{0};
          to[i] = weight;  // NOLINT(bugprone-signed-char-misuse): a number, not a character
          sum += weight;
        }
    start[o] = -kNoTerm<Signed> * sum;
  }
}

}  // namespace

bool prepare_int8(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward<false>);
  if (!s || !s->g.quantized) return false;
  const Geometry& g = s->g;
  if (problem.op == Op::kConv2d && (g.groups != 1 || g.oh == 0 || g.ow == 0 || g.c == 0)) return false;
  const Lines l = lines_of(problem.op, g);
  if (l.segments * l.run > kMostProducts || l.run == 0) return false;
  const bool is_signed = g.x_type == DType::kS8;
  if (is_signed) plan.run = forward<true>;
  plan.pack = is_signed ? pack<true> : pack<false>;
  plan.layout_count = 0;
  plan.packed_input = 1;
  plan.packed_bytes = bytes_of((l.segments * l.dots() + 1) * l.padded(), 4);
  const std::int64_t lines = is_one_line(l) ? (l.wide + 15) / 16 : l.images * l.high;
  cut(s, plan, 0, lines, l.images * l.high * l.wide * l.channels * (l.segments * l.dots() / 4 + 4));
  s->slice_bytes = (slice_bytes(l, g.x_type) + 63) / 64 * 64;
  plan.workspace_bytes = bytes_of(s->slice_bytes * s->slices[0], 1);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
