// Positions decoded one by one with a cache have the bits of full evaluation, and a row's bits do not depend on its
// company.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "harness.h"
#include "kernels/cache_bytes.h"

namespace mlx::kernels::test {
namespace {

const Kernel& row_of(const std::vector<Kernel>& rows, Op op) {
  return *std::find_if(rows.begin(), rows.end(), [&](const Kernel& kernel) { return kernel.op == op; });
}

std::vector<Tensor> run(const std::vector<Kernel>& rows, const Case& test) {
  Prepared prepared;
  std::string damage;
  REQUIRE(prepare_case(row_of(rows, test.op), test, prepared));
  return run_case(prepared.plan(), test, {}, damage);
}

// A prompt of `prompt` positions, then `step` at a time.
void decode_equals_full(const std::vector<Kernel>& rows, std::int64_t kv_heads, std::int64_t time, std::int64_t prompt,
                        std::int64_t step, std::int64_t window = 0, float cap = 0.0f, bool blocks = false,
                        DType cache = DType::kF32) {
  constexpr std::int64_t kBatch = 2, kHeads = 4, kSize = 20, kDim = kHeads * kSize;
  CAPTURE(kv_heads);
  CAPTURE(step);
  Attrs attrs;
  attrs.heads = kHeads, attrs.kv_heads = kv_heads;
  attrs.window = window, attrs.cap = cap;
  const std::int64_t kv = kv_heads * kSize, width = kDim + 2 * kv;
  const Tensor qkv = uniform({kBatch, time, width}, -2.0f, 2.0f, 1);
  const auto y_shape = [](std::int64_t count) { return shape_of(DType::kF32, {kBatch, count, kDim}); };
  const std::int64_t row = cache == DType::kS8 ? kv_heads * cache_head_bytes(kSize) : kv;
  Tensor keys = zeros(cache, {kBatch, time + 3, row}), values = keys, table;
  const Case at_once = cache == DType::kF32 ? Case{"", Op::kAttention, attrs, {qkv}, {y_shape(time)}, {}, {}}
                                            : Case{"",
                                                   Op::kAttentionCached,
                                                   attrs,
                                                   {qkv, keys, keys, zeros(DType::kS32, {kBatch})},
                                                   {y_shape(time), keys.shape, keys.shape},
                                                   {{1, 1}, {2, 2}},
                                                   {}};
  const Tensor full = run(rows, at_once)[0];
  if (blocks) {  // every second one of a sequence
    const std::int64_t of_each = (time + 127) / 128;
    keys = values = zeros(cache, {kBatch * of_each, 128, row});
    table = zeros(DType::kS32, {kBatch, of_each});
    for (std::int64_t i = 0; i < kBatch * of_each; ++i)
      table.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % of_each * kBatch + i / of_each);
  }
  for (std::int64_t at = 0, count = prompt; at < time; at += count, count = std::min(step, time - at)) {
    Tensor part = zeros(DType::kF32, {kBatch, count, width}), positions = zeros(DType::kS32, {kBatch});
    for (std::int64_t b = 0; b < kBatch; ++b) {
      std::copy_n(qkv.data<float>() + (b * time + at) * width, count * width, part.data<float>() + b * count * width);
      positions.data<std::int32_t>()[b] = static_cast<std::int32_t>(at);
    }
    std::vector<Tensor> inputs{part, keys, values, positions};
    if (blocks) inputs.push_back(table);
    const auto outputs = run(
        rows,
        {"", Op::kAttentionCached, attrs, inputs, {y_shape(count), keys.shape, values.shape}, {{1, 1}, {2, 2}}, {}});
    keys = outputs[1], values = outputs[2];
    CAPTURE(at);
    for (std::int64_t b = 0; b < kBatch; ++b)
      CHECK(std::memcmp(full.data<float>() + (b * time + at) * kDim, outputs[0].data<float>() + b * count * kDim,
                        static_cast<std::size_t>(count * kDim) * sizeof(float)) == 0);
  }
}

void decode_equals_full(const std::vector<Kernel>& rows) {
  decode_equals_full(rows, 4, 19, 7, 1);
  decode_equals_full(rows, 2, 19, 7, 1);
  decode_equals_full(rows, 1, 150, 70, 1);  // over a block's end
  decode_equals_full(rows, 2, 300, 13, 9);
  decode_equals_full(rows, 2, 300, 13, 9, 140, 2.0f);
  decode_equals_full(rows, 2, 300, 290, 1, 5);
  decode_equals_full(rows, 1, 150, 70, 1, 131);
  decode_equals_full(rows, 1, 150, 3, 40, 1, 0.5f);
  decode_equals_full(rows, 2, 300, 13, 9, 0, 0.0f, true);
  decode_equals_full(rows, 2, 300, 13, 9, 140, 2.0f, true);
  decode_equals_full(rows, 1, 150, 120, 1, 0, 0.0f, true);
  for (const DType cache : {DType::kF16, DType::kS8}) {  // a prompt at once, in pieces, and step by step
    decode_equals_full(rows, 2, 150, 70, 1, 0, 0.0f, false, cache);
    decode_equals_full(rows, 2, 300, 13, 9, 140, 2.0f, true, cache);
  }
}

// The first row of a batch against the same row alone.
void row_alone(const std::vector<Kernel>& rows, const Case& batch, std::int64_t inputs_with_rows) {
  Case alone = batch;
  for (std::int64_t i = 0; i < inputs_with_rows; ++i) {
    Tensor& tensor = alone.inputs[static_cast<std::size_t>(i)];
    tensor.shape.dims[0] = 1;
    tensor.bytes.resize(tensor.shape.bytes());
  }
  for (Shape& shape : alone.outputs) shape.dims[0] = 1;
  const Tensor many = run(rows, batch)[0], one = run(rows, alone)[0];
  CHECK(std::memcmp(many.bytes.data(), one.bytes.data(), one.bytes.size()) == 0);
}

void rows_are_independent(const std::vector<Kernel>& rows) {
  const Tensor x = uniform({70, 33}, -2.0f, 2.0f, 1), w = uniform({41, 33}, -1.0f, 1.0f, 2),
               b = uniform({41}, -1.0f, 1.0f, 3);
  const Tensor gain = uniform({33}, 0.5f, 1.5f, 4);
  const Shape same = x.shape, y = shape_of(DType::kF32, {70, 41});
  row_alone(rows, {"", Op::kLinear, {}, {x, w, b}, {y}, {}, {}}, 1);
  row_alone(rows, {"", Op::kLayerNorm, {}, {x, gain, gain}, {same}, {}, {}}, 1);
  row_alone(rows, {"", Op::kRmsNorm, {}, {x, gain}, {same}, {}, {}}, 1);
  row_alone(rows, {"", Op::kSoftmax, {}, {x}, {same}, {}, {}}, 1);
  row_alone(rows, {"", Op::kGelu, {}, {x}, {same}, {}, {}}, 1);
}

}  // namespace

TEST_CASE("decoding: ref gives the bits of full evaluation") {
  decode_equals_full(ref_kernels());
  rows_are_independent(ref_kernels());
}

TEST_CASE("decoding: avx2 and avx512 give the bits of full evaluation") {
  for (const char* backend : {"avx2", "avx512"}) {
    CAPTURE(backend);
    try {
      parse_backend(backend);
    } catch (const Error& error) {
      MESSAGE("skipped: " << error.message);
      continue;
    }
    const std::vector<Kernel> rows = std::string(backend) == "avx2" ? avx2_kernels() : avx512_kernels();
    decode_equals_full(rows);
    rows_are_independent(rows);
  }
}

}  // namespace mlx::kernels::test
