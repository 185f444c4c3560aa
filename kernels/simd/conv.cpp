// Convolution with any number of channels and one group, f32: forward and the gradient to the images. Both multiply
// windows of an image with packed weights (product.h). The image is copied with its padding, unless it has none.
//
// The gradient with stride s consists of s x s convolutions of stride 1, because pixels of dx that are s apart have the
// same taps. Their kernels are the reversed taps, applied to dy.
#include "kernels/simd/product.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// An image as windows see it: `wide` pixels of `channels` per row, starting at pixel (-top, -left) of the plain image.
struct Padded {
  std::int64_t high, wide, channels, top, left;
  std::int64_t row() const { return wide * channels; }
  std::int64_t floats() const { return rounded_up(high * row(), 16); }
};
inline bool is_plain(const Padded& p, std::int64_t h, std::int64_t w) {
  return p.top == 0 && p.left == 0 && p.high <= h && p.wide <= w;
}

inline void clear(float* to, std::int64_t count) {
  by_vectors(0, count, [&](std::int64_t i, auto mask) { store(to + i, zeros(), mask); });
}
// Copies rows begin … end-1 of the padded image of x[h, w, channels].
void copy_padded(const Padded& p, const float* x, std::int64_t h, std::int64_t w, Range rows, float* to) {
  const std::int64_t before = p.left > 0 ? smaller(p.left, p.wide) : 0;
  std::int64_t end = smaller(p.wide, w + p.left);
  if (end < before) end = before;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    float* row = to + r * p.row();
    const std::int64_t from = r - p.top;
    if (from < 0 || from >= h) {
      clear(row, p.row());
      continue;
    }
    const float* source = x + (from * w + before - p.left) * p.channels;
    clear(row, before * p.channels);
    float* inside = row + before * p.channels;
    by_vectors(0, (end - before) * p.channels,
               [&](std::int64_t i, auto mask) { store(inside + i, load(source + i, mask), mask); });
    clear(row + end * p.channels, (p.wide - end) * p.channels);
  }
}

// Windows of kh x kw pixels, step_h and step_w pixels apart, over rows of `row` floats. Results have `columns` channels
// and go to y, with strides y_row and y_pixel in floats.
struct Windows {
  const float* image;
  std::int64_t row, channels, step_h, step_w, kh, kw, high, wide;
  const float* packed;
  std::int64_t columns;
  float* y;
  std::int64_t y_row, y_pixel;
  const float* bias;
  Activation activation;
};

// Multiplies with one panel of weights: terms [first, first + segments) x [begin, end) of the kernel's rows.
void pass(const Windows& w, std::int64_t j, std::int64_t first, std::int64_t segments, std::int64_t begin,
          std::int64_t end) {
  const std::int64_t run = w.kw * w.channels, terms = w.kh * run;
  Product<float> m{w.image + first * w.row + begin,
                   w.step_w * w.channels,
                   w.row,
                   segments,
                   end - begin,
                   w.packed + j * terms + (first * run + begin) * panel_width(w.columns, j),
                   w.y + j,
                   w.y_pixel,
                   w.bias ? w.bias + j : nullptr,
                   w.activation,
                   first == 0 && begin == 0,
                   first + segments == w.kh && end == run};
  for (std::int64_t h = 0; h < w.high; ++h, m.a += w.step_h * w.row, m.y += w.y_row)
    multiply(m, w.wide, smaller(kPanel, w.columns - j));
}

void correlate(Windows w) {
  const std::int64_t run = w.kw * w.channels;
  const bool joined = w.kh == 1 && w.kw == 1 && w.step_h == 1 && w.step_w == 1 && w.row == w.wide * w.channels &&
                      w.y_row == w.wide * w.y_pixel;
  if (joined) w.wide *= w.high, w.high = 1;
  for (std::int64_t j = 0; j < w.columns; j += kPanel) {
    if (run <= kDepth) {  // as many whole rows of the kernel as fit into a pass
      const std::int64_t most = run > 0 ? smaller(kDepth / run, w.kh) : w.kh;
      for (std::int64_t first = 0; first < w.kh; first += most) pass(w, j, first, smaller(most, w.kh - first), 0, run);
      continue;
    }
    const std::int64_t parts = (run + kDepth - 1) / kDepth;
    for (std::int64_t first = 0; first < w.kh; ++first)
      for (std::int64_t part = 0; part < parts; ++part)
        pass(w, j, first, 1, run * part / parts, run * (part + 1) / parts);
  }
}

Padded padded_input(const Geometry& g) {
  const std::int64_t high = g.oh > 0 ? (g.oh - 1) * g.sh + g.kh : 0, wide = g.ow > 0 ? (g.ow - 1) * g.sw + g.kw : 0;
  return {high, wide, g.c, g.pt, g.pl};
}

// Sliced by rows of y, image after image.
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Padded p = padded_input(g);
  const bool plain = is_plain(p, g.h, g.w);
  float* image = static_cast<float*>(args.workspace) + p.floats() * slice;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t at = rows.begin; at < rows.end;) {
    const std::int64_t n = at / g.oh, begin = at - n * g.oh, end = smaller(rows.end - n * g.oh, g.oh);
    const float* x = f32_in(s, args, 0) + n * g.h * g.w * g.c;
    if (!plain) copy_padded(p, x, g.h, g.w, {begin * g.sh, (end - 1) * g.sh + g.kh}, image);
    const std::int64_t row = plain ? g.w * g.c : p.row();
    correlate({(plain ? x : image) + begin * g.sh * row, row, g.c, g.sh, g.sw, g.kh, g.kw, end - begin, g.ow,
               static_cast<const float*>(args.packed), g.o, f32_out(s, args, 0) + at * g.ow * g.o, g.ow * g.o, g.o,
               f32_in(s, args, 2), s->attrs.activation});
    at += end - begin;
  }
}
void pack_forward(const void* opaque, const void* weights, const void*, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  const std::int64_t terms = g.kh * g.kw * g.c;
  pack_columns(static_cast<const float*>(weights), terms, terms, g.o, static_cast<float*>(packed));
}

// Along one dimension, the pixels first, first + stride, … of dx: their number, and their number of taps. Tap t,
// counted backwards, is kernel element last - t · stride, applied to pixel i + shift + t of dy.
struct Class {
  std::int64_t count, taps, last, shift;
};
inline Class class_of(std::int64_t first, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                      std::int64_t pad) {
  const std::int64_t least = (first + pad) % stride;
  const std::int64_t taps = least < kernel ? (kernel - least + stride - 1) / stride : 0;
  const std::int64_t count = first < size ? (size - first + stride - 1) / stride : 0;
  return {count, taps, least + (taps - 1) * stride, (first + pad) / stride - taps + 1};
}
// The part of dy that all classes need: the number of pixels before its first one, and in total.
inline Range reach_of(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  Range reach{0, 0};
  for (std::int64_t first = 0; first < smaller(stride, size); ++first) {
    const Class c = class_of(first, size, kernel, stride, pad);
    if (c.taps == 0 || c.count == 0) continue;
    if (-c.shift > reach.begin) reach.begin = -c.shift;
    const std::int64_t end = c.count - 1 + c.shift + c.taps;
    if (end > reach.end) reach.end = end;
  }
  return {reach.begin, reach.begin + reach.end};
}
Padded padded_gradient(const Geometry& g) {
  const Range high = reach_of(g.h, g.kh, g.sh, g.pt), wide = reach_of(g.w, g.kw, g.sw, g.pl);
  return {high.end, wide.end, g.o, high.begin, wide.begin};
}

// Calls body(first row, first column, row class, column class, offset of its weights) for each class of pixels.
template <typename Body>
void by_classes(const Geometry& g, Body body) {
  std::int64_t at = 0;
  for (std::int64_t a = 0; a < smaller(g.sh, g.h); ++a)
    for (std::int64_t b = 0; b < smaller(g.sw, g.w); ++b) {
      const Class h = class_of(a, g.h, g.kh, g.sh, g.pt), w = class_of(b, g.w, g.kw, g.sw, g.pl);
      body(a, b, h, w, at);
      at += h.taps * w.taps * g.o * rounded_up(g.c, 16);
    }
}

// Sliced by image.
void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Padded p = padded_gradient(g);
  const bool plain = is_plain(p, g.oh, g.ow);
  float* image = static_cast<float*>(args.workspace) + p.floats() * slice;
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    const float* dy = f32_in(s, args, 0) + n * g.oh * g.ow * g.o;
    float* dx = f32_out(s, args, 0) + n * g.h * g.w * g.c;
    if (!plain) copy_padded(p, dy, g.oh, g.ow, {0, p.high}, image);
    const float* from = plain ? dy : image;
    const std::int64_t row = plain ? g.ow * g.o : p.row();
    by_classes(g, [&](std::int64_t a, std::int64_t b, const Class& h, const Class& w, std::int64_t at) {
      float* first = dx + (a * g.w + b) * g.c;
      if (h.taps * w.taps == 0) {  // pixels that no window reads
        for (std::int64_t i = 0; i < h.count; ++i)
          for (std::int64_t j = 0; j < w.count; ++j) clear(first + (i * g.sh * g.w + j * g.sw) * g.c, g.c);
        return;
      }
      correlate({from + (h.shift + p.top) * row + (w.shift + p.left) * g.o, row, g.o, 1, 1, h.taps, w.taps, h.count,
                 w.count, static_cast<const float*>(args.packed) + at, g.c, first, g.sh * g.w * g.c, g.sw * g.c,
                 nullptr, Activation::kNone});
    });
  }
}
void pack_backward(const void* opaque, const void* weights, const void*, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  const auto* from = static_cast<const float*>(weights);
  by_classes(g, [&](std::int64_t, std::int64_t, const Class& h, const Class& w, std::int64_t at) {
    const std::int64_t terms = h.taps * w.taps * g.o;
    std::int64_t term = 0;
    for (std::int64_t i = 0; i < h.taps; ++i)
      for (std::int64_t j = 0; j < w.taps; ++j)
        for (std::int64_t o = 0; o < g.o; ++o)
          pack_term(from + ((o * g.kh + h.last - i * g.sh) * g.kw + w.last - j * g.sw) * g.c, term++, terms, g.c,
                    static_cast<float*>(packed) + at);
  });
}

}  // namespace

bool prepare_conv(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s) return false;
  const Geometry& g = s->g;
  if (g.quantized || g.groups != 1 || g.kh > kMostConvKernel || g.kw > kMostConvKernel || g.pt >= g.kh || g.pl >= g.kw)
    return false;
  const bool back = problem.op == Op::kConv2dBackwardData;
  const std::int64_t products = g.n * g.oh * g.ow * g.o * (g.kh * g.kw * g.c / 4 + 4);
  cut(s, plan, 0, back ? g.n : g.n * g.oh, products);
  const Padded p = back ? padded_gradient(g) : padded_input(g);
  const bool plain = back ? is_plain(p, g.oh, g.ow) : is_plain(p, g.h, g.w);
  plan.workspace_bytes = plain ? 0 : bytes_of(p.floats() * s->slices[0], sizeof(float));
  plan.packed_input = 1;
  if (back) plan.run = backward_data;
  plan.pack = back ? pack_backward : pack_forward;
  if (!back) plan.layout_count = 0;
  plan.packed_bytes =
      bytes_of(g.kh * g.kw * (back ? g.o * rounded_up(g.c, 16) : g.c * rounded_up(g.o, 16)), sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
