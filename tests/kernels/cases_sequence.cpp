// The problems of transformers that every kernel of the table is tested on: RMS norm, SwiGLU, rotary positions,
// attention with as many heads of keys as of queries and with fewer.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "cases.h"
#include "kernels/cache_bytes.h"

namespace mlx::kernels::test {
namespace {

// A few elements of `tensor` that are not finite, denormal or zero.
Tensor with_extremes(Tensor tensor) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[] = {std::nanf(""), kInfinity, -kInfinity, 1e-40f, -1e-40f, -0.0f};
  const std::int64_t count = tensor.shape.count();
  std::int64_t at = 0;
  for (const float value : values) {
    if (at < count) tensor.data<float>()[at] = value;
    at += 1 + count / 7;
  }
  return tensor;
}

void rms_norm(Cases& cases) {
  for (const std::int64_t d : kWidths)
    for (const std::int64_t rows : {0, 1, 3, 200}) {
      const Tensor x = rows == 3 ? with_extremes(random({rows, d}, 1)) : random({rows, d}, 1), gamma = random({d}, 2);
      const std::string name = fmt::format("[{},{}]", rows, d);
      cases.push_back({name, Op::kRmsNorm, {}, {x, gamma}, {f32({rows, d}), f32({rows})}, {}, {}});
      cases.push_back({name + " alone", Op::kRmsNorm, {}, {x, gamma}, {f32({rows, d})}, {}, {}});
      if (rows == 3) continue;
      cases.push_back({name,
                       Op::kRmsNormBackward,
                       {},
                       {x, random({rows, d}, 4), gamma, uniform({rows}, 0.1f, 2.0f, 5)},
                       {f32({rows, d}), f32({d})},
                       {},
                       {}});
    }
}

void swiglu(Cases& cases) {
  for (const std::int64_t half : kWidths)
    for (const std::int64_t rows : {0, 1, 5, 300}) {
      const std::string name = fmt::format("[{},{}]", rows, 2 * half);
      const Tensor x = uniform({rows, 2 * half}, -8.0f, 8.0f, 1), dy = random({rows, half}, 2);
      cases.push_back({name, Op::kSwiGlu, {}, {rows == 5 ? with_extremes(x) : x}, {f32({rows, half})}, {}, {}});
      cases.push_back({name, Op::kSwiGluBackward, {}, {x, dy}, {f32({rows, 2 * half})}, {}, {}});
      Attrs gelu;
      gelu.activation = Activation::kGelu;
      cases.push_back({name + " gelu", Op::kSwiGlu, gelu, {x}, {f32({rows, half})}, {}, {}});
      cases.push_back({name + " gelu", Op::kSwiGluBackward, gelu, {x, dy}, {f32({rows, 2 * half})}, {}, {}});
    }
}

struct SequenceSizes {
  std::int64_t batch, time, heads, kv_heads, size;
  std::int64_t window = 0;
  float cap = 0.0f;
};
std::string title(const SequenceSizes& s) {
  return fmt::format("[{},{}] {} heads of {}, {} of keys{}{}", s.batch, s.time, s.heads, s.size, s.kv_heads,
                     s.window > 0 ? fmt::format(", window {}", s.window) : "", s.cap > 0 ? ", capped" : "");
}
Attrs attrs_of(const SequenceSizes& s) {
  Attrs attrs;
  attrs.heads = s.heads;
  if (s.kv_heads != s.heads) attrs.kv_heads = s.kv_heads;
  attrs.window = s.window, attrs.cap = s.cap;
  if (s.cap > 0) attrs.scale_a = 1.5f;
  return attrs;
}

void rope(Cases& cases) {
  for (const SequenceSizes& s : std::vector<SequenceSizes>{
           {2, 5, 2, 1, 32}, {1, 17, 3, 3, 2}, {3, 40, 4, 2, 34}, {2, 0, 1, 1, 8}, {0, 4, 1, 1, 8}, {1, 1, 2, 1, 66}}) {
    Attrs attrs = attrs_of(s);
    attrs.axis = 30;  // shorter than some sequences
    attrs.theta = 500.0f;
    if (s.heads == 3) attrs.slow = 4.0f;
    if (s.heads == 2 && s.batch == 2) attrs.slow = 4.0f, attrs.ramp_begin = 2.5f, attrs.ramp_end = 9.0f;
    if (s.heads == 4) attrs.slow = 8.0f, attrs.long_context = 20, attrs.long_low = 0.5f, attrs.long_high = 2.0f;
    const Dims dims{s.batch, s.time, (s.heads + 2 * s.kv_heads) * s.size};
    for (const Op op : {Op::kRope, Op::kRopeBackward})
      for (const bool given : {false, true}) {
        const Tensor first = given ? integers(DType::kS32, {s.batch}, -3, 12, 4) : absent();
        cases.push_back({title(s) + (given ? " from positions" : ""),
                         op,
                         attrs,
                         {random(dims, 1), first},
                         {f32(dims)},
                         {},
                         {{0, 0}}});
      }
  }
}

// Forward and backward of qkv in the type that it is stored as.
void attention_of(Cases& cases, const SequenceSizes& s, const Tensor& qkv) {
  const DType type = qkv.shape.dtype;
  const std::string name = fmt::format("{} {}", title(s), name_of(type));
  const Attrs attrs = attrs_of(s);
  const Dims dims{s.batch, s.time, s.heads * s.size};
  const Shape y = shape_of(type, dims), lse = f32({s.batch, s.heads, s.time});
  const Case forward{name, Op::kAttention, attrs, {qkv}, {y, lse}, {}, {}};
  cases.push_back(forward);
  cases.push_back({name + " alone", Op::kAttention, attrs, {qkv}, {y}, {}, {}});
  std::string damage;
  for (const Kernel& kernel : ref_kernels()) {
    Prepared prepared;
    if (kernel.op != Op::kAttention || !prepare_case(kernel, forward, prepared)) continue;
    const std::vector<Tensor> out = run_case(prepared.plan(), forward, {}, damage);
    const Tensor dy = stored(random(dims, 2), type);
    cases.push_back({name, Op::kAttentionBackward, attrs, {qkv, out[0], out[1], dy}, {qkv.shape}, {}, {}});
  }
}

// A cache whose blocks the sequences have in no order; with another table, the last one lacks a block.
// Keys or values in eight bits, with scales.
Tensor cache_in_bytes(std::int64_t rows, std::int64_t block, const SequenceSizes& s, std::uint64_t seed) {
  const std::int64_t head = cache_head_bytes(s.size), heads = rows * block * s.kv_heads;
  Tensor out = integers(DType::kS8, {rows, block, s.kv_heads * head}, -127, 127, seed);
  const Tensor scales = uniform({heads * head}, 0.001f, 0.03f, seed + 1);
  for (std::int64_t i = 0; i < heads; ++i)
    for (std::int64_t at = s.size; at < head; at += 2) {
      const F16 scale = to_f16(scales.data<float>()[i * head + at]);
      std::memcpy(out.bytes.data() + i * head + at, &scale, sizeof scale);
    }
  return out;
}

// Caches of fewer bytes, whose rows follow one another.
void attention_in_small_caches(Cases& cases, const SequenceSizes& s, const Attrs& attrs, const Tensor& qkv,
                               std::int64_t most) {
  const std::int64_t rows = s.time + 45;
  const Dims dims{s.batch, rows, s.kv_heads * s.size};
  for (const DType type : {DType::kF16, DType::kS8}) {
    const bool bytes = type == DType::kS8;
    const Tensor keys = bytes ? cache_in_bytes(s.batch, rows, s, 6) : stored(random(dims, 6), type),
                 values = bytes ? cache_in_bytes(s.batch, rows, s, 8) : stored(random(dims, 8), type);
    for (const bool strange : {false, true})
      cases.push_back(
          {fmt::format("{} up to {}, cache {}{}", title(s), most, name_of(type), strange ? ", odd" : ""),
           Op::kAttentionCached,
           attrs,
           {strange ? odd(qkv) : qkv, keys, values, integers(DType::kS32, {s.batch}, 0, static_cast<int>(most), 5)},
           {f32({s.batch, s.time, s.heads * s.size}), keys.shape, values.shape},
           {{1, 1}, {2, 2}},
           {}});
  }
}

void attention_in_blocks(Cases& cases, const SequenceSizes& s, const Attrs& attrs, const Tensor& qkv) {
  constexpr std::int64_t kSize = 128, kUnused = 2;
  const std::int64_t of_each = (s.time + 45 + kSize - 1) / kSize, count = s.batch * of_each + kUnused;
  const Dims dims{count, kSize, s.kv_heads * s.size};
  const Tensor keys = random(dims, 3), values = random(dims, 4);
  for (const bool lacking : {false, true}) {
    Tensor blocks = zeros(DType::kS32, {s.batch, of_each});
    std::int32_t* const numbers = blocks.data<std::int32_t>();
    for (std::int64_t i = 0; i < s.batch * of_each; ++i) numbers[i] = static_cast<std::int32_t>(count - 1 - i);
    if (lacking && s.batch > 0)
      numbers[s.batch * of_each - 1] = s.batch % 2 == 0 ? -1 : static_cast<std::int32_t>(count);
    cases.push_back({fmt::format("{} in blocks{}", title(s), lacking ? ", one lacking" : ""),
                     Op::kAttentionCached,
                     attrs,
                     {qkv, keys, values, integers(DType::kS32, {s.batch}, 0, 45, 5), blocks},
                     {f32({s.batch, s.time, s.heads * s.size}), keys.shape, values.shape},
                     {{1, 1}, {2, 2}},
                     {}});
  }
}

void attention(Cases& cases) {
  for (const SequenceSizes& s : std::vector<SequenceSizes>{{1, 1, 1, 1, 1},
                                                           {2, 5, 2, 2, 16},
                                                           {1, 17, 3, 3, 16},
                                                           {2, 40, 2, 2, 17},
                                                           {3, 0, 1, 1, 8},
                                                           {0, 4, 1, 1, 8},
                                                           {1, 33, 2, 2, 80},
                                                           {2, 40, 4, 2, 16},
                                                           {1, 31, 6, 1, 9},
                                                           {1, 300, 4, 2, 64},
                                                           {1, 129, 2, 1, 33},
                                                           {2, 40, 4, 2, 16, 7},
                                                           {1, 300, 2, 1, 17, 130, 0.7f},
                                                           {1, 170, 2, 2, 8, 1},
                                                           {1, 33, 3, 3, 16, 0, 0.5f},
                                                           {2, 20, 2, 2, 16, 64}}) {
    const std::int64_t d = s.heads * s.size, kv = s.kv_heads * s.size, width = d + 2 * kv;
    const Attrs attrs = attrs_of(s);
    const Tensor qkv = random({s.batch, s.time, width}, 1);
    const Shape y = f32({s.batch, s.time, d});
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (s.time < 300 || type == DType::kF32)
        attention_of(cases, s, stored(qkv, type));  // tensor cores emulated: slow
    }
    const std::int64_t p = s.time + 45;
    const Tensor keys = random({s.batch, p, kv}, 3), values = random({s.batch, p, kv}, 4);
    for (const std::int64_t most : {p - s.time, p})  // the second: some sequences outgrow the cache
      cases.push_back({fmt::format("{} up to {}", title(s), most),
                       Op::kAttentionCached,
                       attrs,
                       {qkv, keys, values, integers(DType::kS32, {s.batch}, 0, static_cast<int>(most), 5)},
                       {y, keys.shape, values.shape},
                       {{1, 1}, {2, 2}},
                       {}});
    if (s.time < 200) attention_in_small_caches(cases, s, attrs, qkv, p);
    if (s.time < 200) attention_in_blocks(cases, s, attrs, qkv);  // decoding tests longer ones (test_decoding.cpp)
  }
}

// Lengths from none of a sequence to more than it has.
void bidirectional_attention(Cases& cases) {
  for (const SequenceSizes& s : std::vector<SequenceSizes>{{1, 1, 1, 1, 1},
                                                           {5, 6, 2, 2, 16},
                                                           {2, 16, 3, 3, 16},
                                                           {1, 17, 2, 1, 17},
                                                           {3, 0, 1, 1, 8},
                                                           {0, 4, 1, 1, 8},
                                                           {3, 40, 4, 2, 32},
                                                           {2, 129, 2, 2, 33},
                                                           {1, 300, 2, 2, 64}}) {
    const Attrs attrs = attrs_of(s);
    const Tensor qkv = random({s.batch, s.time, (s.heads + 2 * s.kv_heads) * s.size}, 1);
    const Tensor lengths = integers(DType::kS32, {s.batch}, -1, static_cast<int>(s.time) + 1, 5);
    for (const Tensor& given : {absent(), lengths})
      cases.push_back({title(s) + (given.shape.rank < 0 ? "" : " with lengths"),
                       Op::kBidirectionalAttention,
                       attrs,
                       {qkv, given},
                       {f32({s.batch, s.time, s.heads * s.size})},
                       {},
                       {}});
  }
}

// SequenceSizes around those of the tiles of kernels in half precision, each of their widths and one beyond; and what
// is not finite, at the end of a tile of queries and at the beginning of one of keys, where it reaches the same results
// whether scores are computed alone or by tiles.
void attention_in_half(Cases& cases) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const SequenceSizes& s : std::vector<SequenceSizes>{{3, 2, 4, 4, 8},
                                                           {1, 63, 1, 1, 40},
                                                           {1, 64, 6, 1, 32},
                                                           {2, 65, 1, 1, 128},
                                                           {1, 129, 2, 1, 64},
                                                           {1, 130, 1, 1, 96},
                                                           {1, 200, 1, 1, 80},
                                                           {1, 20, 2, 1, 136}}) {
    const std::int64_t width = (s.heads + 2 * s.kv_heads) * s.size;
    const Tensor qkv = random({s.batch, s.time, width}, 1);
    for (const DType type : {DType::kBF16, DType::kF16}) attention_of(cases, s, stored(qkv, type));
  }
  struct Odd {
    std::int64_t row, rows, column;
    float value;
  };
  const SequenceSizes s{1, 129, 2, 1, 16};
  const std::int64_t width = (s.heads + 2 * s.kv_heads) * s.size;
  for (const Odd& odd : std::vector<Odd>{{95, 1, 3, std::nanf("")},                 // of a query
                                         {64, 1, s.heads * s.size + 5, kInfinity},  // of a key
                                         {0, 64, s.heads * s.size + 5, kInfinity},  // of all keys of a tile
                                         {64, 1, (s.heads + s.kv_heads) * s.size + 2, -kInfinity}}) {  // of a value
    Tensor qkv = random({s.batch, s.time, width}, 1);
    for (std::int64_t i = 0; i < odd.rows; ++i) qkv.data<float>()[(odd.row + i) * width + odd.column] = odd.value;
    attention_of(cases, s, stored(qkv, DType::kBF16));
  }
}

}  // namespace

void add_sequence_cases(Cases& cases) {
  for (void (*add)(Cases&) : {rms_norm, swiglu, rope, attention, bidirectional_attention, attention_in_half})
    add(cases);
}

}  // namespace mlx::kernels::test
