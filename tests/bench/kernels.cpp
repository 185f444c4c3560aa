// Speed of every kernel on shapes of real networks, on one core: GFLOP/s and GB/s for each operation and backend, and
// the share of what the core can do at most. The limit is max(FLOPs ÷ the best rate of a matrix product, bytes ÷ the
// bandwidth of a large copy); more than 100 % means that the tensors fit into a cache. Also measures a GPU, if there is
// one. Prints a table; asserts nothing. usage: bench_kernels [part of a name]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/parallel.h"
#include "graph/session/machine_peak.h"
#include "kernels/block_type.h"
#include "kernels/device.h"
#include "kernels/geometry.h"
#include "kernels/table.h"

namespace mlx::kernels {
namespace {

Shape tensor(DType dtype, std::vector<std::int64_t> dims) {
  Shape shape;
  shape.dtype = dtype;
  shape.rank = static_cast<int>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) shape.dims[i] = dims[i];
  return shape;
}
Shape f32(std::vector<std::int64_t> dims) {
  return tensor(DType::kF32, std::move(dims));
}

struct Entry {
  std::string name;
  Op op{};
  Attrs attrs;
  std::vector<Shape> inputs, outputs;
  double flops = 0.0;  // of one run; 0 if only bytes count
  int copies = 1;      // of packed weights, used in turns: many are more than caches hold
};

Problem problem_of(const Entry& entry, const void* const* constants) {
  return {entry.op,
          entry.attrs,
          static_cast<int>(entry.inputs.size()),
          static_cast<int>(entry.outputs.size()),
          entry.inputs.data(),
          entry.outputs.data(),
          constants};
}

using Entries = std::vector<Entry>;

void convolution(Entries& entries, std::int64_t n, std::int64_t size, std::int64_t c, std::int64_t o) {
  Attrs attrs;
  attrs.kernel = {3, 3}, attrs.pad = {1, 1, 1, 1};
  const Shape x = f32({n, size, size, c}), w = f32({o, 3, 3, c}), b = f32({o}), y = f32({n, size, size, o});
  const double flops = 2.0 * 9.0 * static_cast<double>(n * size * size * c * o);
  const std::string shape = fmt::format("{}x{}x{} {}->{}", n, size, size, c, o);
  entries.push_back({"conv " + shape, Op::kConv2d, attrs, {x, w, b}, {y}, flops});
  if (c > 1) entries.push_back({"conv back data " + shape, Op::kConv2dBackwardData, attrs, {y, w}, {x}, flops});
  entries.push_back({"conv back weights " + shape, Op::kConv2dBackwardWeights, attrs, {x, y}, {w, b}, flops});
  attrs.activation = Activation::kRelu;
  attrs.scale_x = attrs.scale_y = 0.05f;
  const auto bytes = [](Shape s, DType dtype) { return s.dtype = dtype, s; };
  entries.push_back({"conv int8 " + shape,
                     Op::kConv2d,
                     attrs,
                     {bytes(x, DType::kU8), bytes(w, DType::kS8), b, b},
                     {bytes(y, DType::kU8)},
                     flops});
  const Shape x16 = bytes(x, DType::kBF16), y16 = bytes(y, DType::kBF16);
  attrs.activation = Activation::kNone;
  if (c > kFewChannels) {
    entries.push_back({"conv bf16 " + shape, Op::kConv2d, attrs, {x16, w}, {y16}, flops});
    entries.push_back({"conv bf16 back data " + shape, Op::kConv2dBackwardData, attrs, {y16, w}, {x16}, flops});
    entries.push_back({"conv bf16 back data to f32 " + shape, Op::kConv2dBackwardData, attrs, {y16, w}, {x}, flops});
    entries.push_back({"conv bf16 back weights " + shape, Op::kConv2dBackwardWeights, attrs, {x16, y16}, {w}, flops});
  }
}

// As in MobileNetV2: 3x3, no bias, relu6 after the norm.
void depthwise(Entries& entries, std::int64_t n, std::int64_t size, std::int64_t c, std::int64_t stride) {
  Attrs attrs;
  attrs.kernel = {3, 3}, attrs.pad = {1, 1, 1, 1}, attrs.stride = {stride, stride}, attrs.groups = c;
  const std::int64_t half = (size - 1) / stride + 1;
  const Shape x = f32({n, size, size, c}), w = f32({c, 3, 3, 1}), y = f32({n, half, half, c});
  const double flops = 2.0 * 9.0 * static_cast<double>(n * half * half * c);
  const std::string shape = fmt::format("{}x{}x{}x{} /{}", n, size, size, c, stride);
  entries.push_back({"depthwise " + shape, Op::kConv2d, attrs, {x, w}, {y}, flops});
  entries.push_back({"depthwise back data " + shape, Op::kConv2dBackwardData, attrs, {y, w}, {x}, flops});
  entries.push_back({"depthwise back weights " + shape, Op::kConv2dBackwardWeights, attrs, {x, y}, {w}, flops});
}

// A layer at inference: f32 and int8, with its activation, and few enough images that they stay in caches.
void inference(Entries& entries, std::int64_t size, std::int64_t c, std::int64_t o, std::int64_t kernel,
               std::int64_t stride = 1) {
  constexpr std::int64_t kImages = 8;
  const bool depthwise = o == 0;
  if (depthwise) o = c;
  Attrs attrs;
  attrs.kernel = {kernel, kernel}, attrs.stride = {stride, stride}, attrs.groups = depthwise ? c : 1;
  if (kernel == 3) attrs.pad = {1, 1, 1, 1};
  attrs.activation = Activation::kRelu6;
  attrs.scale_x = attrs.scale_y = 0.05f;
  const std::int64_t out = (size - 1) / stride + 1, taps = kernel * kernel * (depthwise ? 1 : c);
  const auto bytes = [](Shape s, DType dtype) { return s.dtype = dtype, s; };
  const Shape x = f32({kImages, size, size, c}), w = f32({o, kernel, kernel, depthwise ? 1 : c}), b = f32({o}),
              y = f32({kImages, out, out, o});
  const double flops = 2.0 * static_cast<double>(kImages * out * out * o * taps);
  const std::string shape = fmt::format("{}x{} {}->{} {}x{}/{}", size, size, c, depthwise ? "each" : std::to_string(o),
                                        kernel, kernel, stride);
  entries.push_back({"layer f32 " + shape, Op::kConv2d, attrs, {x, w, b}, {y}, flops});
  entries.push_back({"layer int8 " + shape,
                     Op::kConv2d,
                     attrs,
                     {bytes(x, DType::kU8), bytes(w, DType::kS8), b, b},
                     {bytes(y, DType::kU8)},
                     flops});
}
// The layers of ResNet-20 at 32x32 and of MobileNetV2 at 96x96.
void inference(Entries& entries) {
  inference(entries, 32, 3, 16, 3);
  for (const std::int64_t c : {16, 32, 64}) inference(entries, 512 / c, c, c, 3);
  inference(entries, 32, 16, 32, 3, 2);
  inference(entries, 96, 3, 32, 3, 2);
  for (const auto& [size, c, wide, stride] : {std::array<std::int64_t, 4>{48, 32, 16, 1},
                                              {48, 16, 96, 2},
                                              {24, 24, 144, 1},
                                              {12, 32, 192, 1},
                                              {6, 64, 384, 1},
                                              {6, 96, 576, 2},
                                              {3, 160, 960, 1}}) {
    inference(entries, size, c, wide, 1);
    inference(entries, size, wide, c, 1);
    inference(entries, size, wide, 0, 3, stride);
  }
  inference(entries, 3, 320, 1280, 1);
}

// With factors in f32 and in bf16.
void linear(Entries& entries, std::int64_t n, std::int64_t k, std::int64_t o) {
  const Shape w = f32({o, k}), b = f32({o});
  const double flops = 2.0 * static_cast<double>(n * k * o);
  const std::string shape = fmt::format("{}x{}->{}", n, k, o);
  for (const DType factors : {DType::kF32, DType::kBF16}) {
    const Shape x = tensor(factors, {n, k}), dy = tensor(factors, {n, o});
    const std::string kind = factors == DType::kF32 ? "linear " : "linear bf16 ";
    entries.push_back({kind + shape, Op::kLinear, {}, {x, w, b}, {f32({n, o})}, flops});
    entries.push_back({kind + "back data " + shape, Op::kLinearBackwardData, {}, {dy, w}, {f32({n, k})}, flops});
    entries.push_back({kind + "back weights " + shape, Op::kLinearBackwardWeights, {}, {x, dy}, {w, b}, flops});
  }
}

// With weights of four and eight bits in groups of 32, and in blocks: of a language model that reads a prompt or
// decodes. When it decodes, weights come from memory.
void linear_groups(Entries& entries, std::int64_t n, std::int64_t k, std::int64_t o) {
  const int copies = n > 16 ? 1 : 24;
  const double flops = 2.0 * static_cast<double>(n * k * o);
  const Shape scales = tensor(DType::kF16, {k / 32, o});
  const std::string shape = fmt::format("{}x{}->{}{}", n, k, o, copies > 1 ? " from memory" : "");
  const Shape four = tensor(DType::kU8, {o, k / 2}), eight = tensor(DType::kS8, {o, k});
  for (const auto& [kind, w] : {std::pair("int4", four), {"int8", eight}}) {
    const std::string name = fmt::format("linear {} groups {}", kind, shape);
    entries.push_back({name, Op::kLinearGroups, {}, {f32({n, k}), w, scales}, {f32({n, o})}, flops, copies});
  }
  for (const BlockNumber number : {kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K}) {
    const BlockType& type = *find_block_type(number);
    Attrs attrs;
    attrs.blocks = int_list({number}), attrs.block_rows = int_list({o});
    const std::string kind = type.name;
    entries.push_back({"linear " + kind + " groups " + shape,
                       Op::kLinearBlocks,
                       attrs,
                       {f32({n, k}), tensor(DType::kU8, {o * k / type.weights * type.bytes})},
                       {f32({n, o})},
                       flops,
                       copies});
  }
}

void images(Entries& entries, std::int64_t n, std::int64_t size, std::int64_t c) {
  const Shape x = f32({n, size, size, c}), half = f32({n, size / 2, size / 2, c}), v = f32({c});
  const Shape index = tensor(DType::kS32, {n, size / 2, size / 2, c});
  const std::string shape = fmt::format("{}x{}x{}x{}", n, size, size, c);
  Attrs relu, pool, dropout;
  relu.activation = Activation::kRelu;
  pool.kernel = pool.stride = {2, 2};
  dropout.rate = 0.25f;
  entries.push_back({"batch norm relu " + shape, Op::kBatchNorm, relu, {x, v, v, v, v}, {x, v, v, v, v}});
  entries.push_back({"batch norm relu back " + shape, Op::kBatchNormBackward, relu, {x, x, v, v, v, v}, {x, v, v}});
  entries.push_back({"relu " + shape, Op::kRelu, {}, {x}, {x}});
  entries.push_back({"gelu " + shape, Op::kGelu, {}, {x}, {x}});
  entries.push_back({"max pool " + shape, Op::kMaxPool, pool, {x}, {half, index}});
  entries.push_back({"max pool back " + shape, Op::kMaxPoolBackward, pool, {half, index}, {x}});
  entries.push_back({"avg pool " + shape, Op::kAvgPool, {}, {x}, {f32({n, c})}});
  entries.push_back({"dropout " + shape, Op::kDropout, dropout, {x}, {x}});
}

// FLOPs of the causal half.
struct Heads {
  std::int64_t n, time, heads, kv_heads, size = 64;
};
Attrs attrs_of(const Heads& h) {
  Attrs attrs;
  attrs.heads = h.heads, attrs.kv_heads = h.kv_heads, attrs.axis = h.time;
  return attrs;
}
void attention(Entries& entries, const Heads& h, DType type = DType::kF32) {
  const std::int64_t d = h.heads * h.size, kv = h.kv_heads * h.size;
  const Shape qkv = tensor(type, {h.n, h.time, d + 2 * kv}), y = tensor(type, {h.n, h.time, d});
  const Shape lse = f32({h.n, h.heads, h.time});
  const double flops = 2.0 * 2.0 * static_cast<double>(h.n * d * h.time * (h.time + 1) / 2);
  const std::string shape =
      fmt::format("{} {}x{} {}/{} heads of {}", name_of(type), h.n, h.time, h.heads, h.kv_heads, h.size);
  if (type == DType::kF32) entries.push_back({"rope " + shape, Op::kRope, attrs_of(h), {qkv}, {qkv}});
  entries.push_back({"attention " + shape, Op::kAttention, attrs_of(h), {qkv}, {y, lse}, flops});
  entries.push_back(
      {"attention back " + shape, Op::kAttentionBackward, attrs_of(h), {qkv, y, lse, y}, {qkv}, 2.5 * flops});
}

Entries table() {
  Entries entries;
  convolution(entries, 128, 28, 1, 32);
  convolution(entries, 128, 28, 32, 32);
  convolution(entries, 128, 14, 64, 64);
  convolution(entries, 128, 7, 128, 128);
  for (const auto& [size, c, stride] : {std::array<std::int64_t, 3>{48, 32, 1},
                                        {48, 96, 2},
                                        {24, 144, 1},
                                        {24, 144, 2},
                                        {12, 192, 1},
                                        {12, 192, 2},
                                        {6, 384, 1},
                                        {6, 576, 2},
                                        {3, 960, 1}}) {
    depthwise(entries, 32, size, c, stride);
  }
  inference(entries);
  convolution(entries, 128, 32, 16, 16);
  convolution(entries, 16, 56, 64, 64);
  convolution(entries, 16, 14, 256, 256);
  linear(entries, 128, 784, 512);
  linear(entries, 8192, 384, 1536);
  linear(entries, 1024, 768, 2304);
  linear(entries, 128, 6272, 128);
  linear(entries, 128, 128, 10);
  for (const std::int64_t rows : {1, 2, 4, 8, 16, 128, 512}) linear_groups(entries, rows, 2048, 5632);
  images(entries, 128, 28, 32);
  images(entries, 128, 14, 64);
  const Shape pixels = tensor(DType::kU8, {64, 224, 224, 3}), changes = tensor(DType::kS32, {64, 6});
  for (const DType type : {DType::kF32, DType::kBF16})
    entries.push_back({fmt::format("augment 64x224x224x3 to {}", name_of(type)),
                       Op::kAugment,
                       {},
                       {pixels, changes, f32({3, 256})},
                       {tensor(type, {64, 224, 224, 3})}});
  const Shape logits = f32({128, 10}), words = f32({64, 50000}), labels = tensor(DType::kS32, {128}),
              count = tensor(DType::kS32, {1});
  entries.push_back({"loss 128x10", Op::kSoftmaxCrossEntropy, {}, {logits, labels}, {f32({1}), logits, count, count}});
  entries.push_back({"loss 64x50000",
                     Op::kSoftmaxCrossEntropy,
                     {},
                     {words, tensor(DType::kS32, {64})},
                     {f32({1}), words, count, count}});
  const Shape w = f32({1 << 20}), one = f32({1}), rows = f32({1024, 768}), d = f32({768}), r = f32({1024});
  entries.push_back({"sgd 1M", Op::kSgd, {}, {w, w, w, one}, {w, w}});
  entries.push_back({"adamw 1M", Op::kAdamW, {}, {w, w, w, w, one}, {w, w, w}});
  entries.push_back({"lion 1M", Op::kLion, {}, {w, w, w, one}, {w, w}});
  entries.push_back({"muon direction 1M", Op::kMuonDirection, {}, {w, w}, {w, w}});
  entries.push_back({"scaled add 1M", Op::kScaledAdd, {}, {w, w}, {w}});
  entries.push_back({"norm 1M", Op::kNorm, {}, {w}, {one}});
  Attrs vocabulary;
  vocabulary.axis = 50257;
  const Shape ids = tensor(DType::kS32, {1024}), words_table = f32({50257, 768});
  entries.push_back(
      {"embedding back 1024 of 50257x768", Op::kEmbeddingBackward, vocabulary, {ids, rows}, {words_table}});
  entries.push_back({"layer norm 1024x768", Op::kLayerNorm, {}, {rows, d, d}, {rows, r, r}});
  entries.push_back({"layer norm back 1024x768", Op::kLayerNormBackward, {}, {rows, rows, d, r, r}, {rows, d, d}});
  entries.push_back({"rms norm 1024x768", Op::kRmsNorm, {}, {rows, d}, {rows, r}});
  entries.push_back({"rms norm back 1024x768", Op::kRmsNormBackward, {}, {rows, rows, d, r}, {rows, d}});
  const Shape many = f32({16384, 768}), narrow = tensor(DType::kBF16, {16384, 768}), each = f32({16384});  // on a GPU
  entries.push_back(
      {"sum, layer norm bf16 16384x768", Op::kLayerNorm, {}, {many, d, d, narrow}, {narrow, each, each, many}});
  entries.push_back({"layer norm back, sum bf16 16384x768",
                     Op::kLayerNormBackward,
                     {},
                     {many, narrow, d, each, each, many},
                     {many, d, d}});
  entries.push_back({"sum, rms norm bf16 16384x768", Op::kRmsNorm, {}, {many, d, narrow}, {narrow, each, many}});
  entries.push_back(
      {"rms norm back, sum bf16 16384x768", Op::kRmsNormBackward, {}, {many, narrow, d, each, many}, {many, d}});
  const Shape gated = f32({1024, 4096}), half = f32({1024, 2048});
  entries.push_back({"swiglu 1024x2048", Op::kSwiGlu, {}, {gated}, {half}});
  entries.push_back({"swiglu back 1024x2048", Op::kSwiGluBackward, {}, {gated, half}, {gated}});
  attention(entries, {2, 256, 12, 12});
  attention(entries, {1, 1024, 12, 12});
  attention(entries, {1, 1024, 12, 4});
  for (const DType type : {DType::kBF16, DType::kF16}) {  // on a GPU
    attention(entries, {16, 1024, 12, 12}, type);
    attention(entries, {4, 4096, 32, 8, 128}, type);
    const Shape vocabularies = tensor(type, {2048, 50257});
    entries.push_back({fmt::format("loss 2048x50257 {}", name_of(type)),
                       Op::kSoftmaxCrossEntropy,
                       {},
                       {vocabularies, tensor(DType::kS32, {2048}), f32({2})},
                       {f32({1}), vocabularies, count, count}});
  }
  return entries;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory allocate(std::size_t bytes) {
  return Memory(static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)));
}

// Small positive numbers, which are valid inputs for every operation; labels are 0.
Memory filled(const Shape& shape) {
  Memory memory = allocate(shape.rank < 0 ? 0 : shape.bytes());
  if (shape.rank < 0) return memory;
  std::memset(memory.get(), shape.dtype == DType::kU8 || shape.dtype == DType::kS8 ? 3 : 0, shape.bytes());
  if (shape.dtype != DType::kF32) return memory;
  for (std::int64_t i = 0; i < shape.count(); ++i)
    reinterpret_cast<float*>(memory.get())[i] = 0.01f * static_cast<float>(i % 97 + 1);
  return memory;
}

// The fastest of many runs.
template <typename Once>
double seconds(const Once& once) {
  once();
  double best = 1e9;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    const auto before = std::chrono::steady_clock::now();
    once();
    const auto after = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double>(after - before).count());
    if (std::chrono::duration<double>(after - start).count() > 0.3) break;
  }
  return best;
}

// Each run takes the next one of `packed`.
double seconds(const Plan& plan, Args args, const std::vector<Memory>& packed, Pool& pool) {
  std::size_t next = 0;
  return seconds([&] {
    args.packed = packed[next++ % packed.size()].get();
    for (int phase = 0; phase < plan.phases; ++phase)
      pool.run(plan.slices[static_cast<std::size_t>(phase)],
               [&](std::int64_t slice) { plan.run(plan.state, args, phase, static_cast<int>(slice)); });
  });
}

void measure(const Entry& entry, Backend backend, const graph::MachinePeak& peak, Pool& one, Pool& all) {
  std::vector<Memory> memory;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::size_t bytes = 0;
  for (const Shape& shape : entry.inputs) {
    memory.push_back(filled(shape));
    inputs.push_back(shape.rank < 0 ? nullptr : memory.back().get());
    bytes += shape.rank < 0 ? 0 : shape.bytes();
  }
  for (const Shape& shape : entry.outputs) {
    memory.push_back(filled(shape));
    outputs.push_back(memory.back().get());
    bytes += shape.bytes();
  }
  const bool quantized = entry.inputs[0].dtype == DType::kU8;
  const Problem problem = problem_of(entry, quantized ? inputs.data() : nullptr);
  const Prepared prepared = prepare(problem, backend);
  if (prepared.kernels() == std::string_view("ref")) return;  // the oracle is not meant to be fast
  const Plan& plan = prepared.plan();
  const Memory workspace = allocate(plan.workspace_bytes);
  std::vector<Memory> packed;
  for (int i = 0; i < entry.copies; ++i) {
    packed.push_back(allocate(plan.packed_bytes));
    advise_large_pages(packed.back().get(), plan.packed_bytes);
    std::memset(packed.back().get(), 0, plan.packed_bytes);
  }
  const double packing = plan.packed_input < 0 ? 0.0 : seconds([&] {
    plan.pack(plan.state, inputs[static_cast<std::size_t>(plan.packed_input)],
              plan.packed_scales < 0 ? nullptr : inputs[static_cast<std::size_t>(plan.packed_scales)], packed[0].get());
  });
  const Args args{inputs.data(), outputs.data(), workspace.get(), packed[0].get(), 1, 1};
  const double alone = seconds(plan, args, packed, one), together = seconds(plan, args, packed, all);
  const double least = std::max(entry.flops / peak.flops, static_cast<double>(bytes) / peak.bytes);
  fmt::print("{:44} {:8} {:3} slices {:9.1f} us  {:8.1f} GFLOP/s {:7.1f} GB/s {:5.0f} %   {} threads: {:9.1f} us{}\n",
             entry.name, prepared.kernels(), plan.slices[0], alone * 1e6, entry.flops / alone * 1e-9,
             static_cast<double>(bytes) / alone * 1e-9, 100 * least / alone, all.threads(), together * 1e6,
             packing > 0 ? fmt::format("  weights packed in {:.1f} us", packing * 1e6) : "");
}

struct Release {
  const Device* device;
  void operator()(void* memory) const { device->release(memory); }
};
using DeviceMemory = std::unique_ptr<void, Release>;

DeviceMemory place(const Device& device, std::size_t bytes) {
  DeviceMemory memory(device.allocate(bytes), {&device});
  if (!memory) throw Error(ErrorKind::kMissing, fmt::format("the GPU has no {} bytes left", bytes));
  return memory;
}

// On a GPU: many launches back to back, so that the host's cost of a launch does not count.
void measure_on(const Device& device, const Entry& entry) {
  std::vector<DeviceMemory> memory;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::size_t bytes = 0;
  for (const Shape& shape : entry.inputs) {
    memory.push_back(place(device, shape.bytes()));
    device.upload(memory.back().get(), filled(shape).get(), shape.bytes());
    inputs.push_back(memory.back().get());
    bytes += shape.bytes();
  }
  for (const Shape& shape : entry.outputs) {
    memory.push_back(place(device, shape.bytes()));
    outputs.push_back(memory.back().get());
    bytes += shape.bytes();
  }
  const Problem problem = problem_of(entry, nullptr);
  const Prepared prepared = prepare(problem, cuda_backend());
  const Plan& plan = prepared.plan();
  const DeviceMemory workspace = place(device, plan.workspace_bytes), key = place(device, sizeof(RandomKey));
  device.clear(key.get(), sizeof(RandomKey));
  Args args{inputs.data(), outputs.data(), workspace.get(), nullptr, 1, 1};
  args.key = static_cast<const RandomKey*>(key.get());
  args.stream = device.stream;
  constexpr int kRuns = 20;
  const double all = seconds([&] {
    for (int i = 0; i < kRuns; ++i) plan.run(plan.state, args, 0, 0);
    if (const char* wrong = device.wait()) throw Error(ErrorKind::kMissing, wrong);
  });
  const double one = all / kRuns;
  fmt::print("{:44} {:8} {:9.1f} us  {:8.1f} GFLOP/s {:7.1f} GB/s\n", entry.name, prepared.kernels(), one * 1e6,
             entry.flops / one * 1e-9, static_cast<double>(bytes) / one * 1e-9);
}

// Null, with a message, if there is none.
const Device* gpu() {
  try {
    return &cuda_device();
  } catch (const Error& error) {
    fmt::print("{}\n", error.message);
    return nullptr;
  }
}

}  // namespace

int run(const std::string& part) {
  Pool one(1), all;
  const graph::MachinePeak peak = graph::measure_peak(best_backend(), one);
  fmt::print("one core: {:.1f} GFLOP/s of f32, {:.1f} GB/s\n", peak.flops * 1e-9, peak.bytes * 1e-9);
  const Device* device = gpu();
  for (const Entry& entry : table()) {
    if (entry.name.find(part) == std::string::npos) continue;
    for (const char* name : {"avx2", "avx512", "onednn"}) {
      try {
        const Backend backend = parse_backend(name);
        measure(entry, backend, peak, one, all);
      } catch (const Error& error) {
        fmt::print("{:36} {:8} {}\n", entry.name, name, error.message);
      }
    }
    try {
      if (device) measure_on(*device, entry);
    } catch (const Error& error) {
      fmt::print("{:36} cuda     {}\n", entry.name, error.message);
    }
  }
  return 0;
}

}  // namespace mlx::kernels

int main(int argc, char** argv) {
  return mlx::kernels::run(argc > 1 ? argv[1] : "");
}
