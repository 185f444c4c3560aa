// Positions decoded one by one with a cache have the bits of full evaluation, and a row's bits do not depend on its
// company.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "harness.h"

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

void decode_equals_full(const std::vector<Kernel>& rows) {
  constexpr std::int64_t kBatch = 2, kTime = 19, kDim = 24, kCapacity = 32;
  Attrs attrs;
  attrs.heads = 3;
  const Tensor qkv = uniform({kBatch, kTime, 3 * kDim}, -2.0f, 2.0f, 1);
  const auto y_shape = [](std::int64_t time) { return shape_of(DType::kF32, {kBatch, time, kDim}); };
  const Tensor full = run(rows, {"", Op::kAttention, attrs, {qkv}, {y_shape(kTime)}, {}, {}})[0];
  Tensor keys = zeros(DType::kF32, {kBatch, kCapacity, kDim}), values = keys;
  // A prompt of 7 positions, then one by one.
  for (std::int64_t at = 0, count = 7; at < kTime; at += count, count = 1) {
    Tensor part = zeros(DType::kF32, {kBatch, count, 3 * kDim}), positions = zeros(DType::kS32, {kBatch});
    for (std::int64_t b = 0; b < kBatch; ++b) {
      std::copy_n(qkv.data<float>() + (b * kTime + at) * 3 * kDim, count * 3 * kDim,
                  part.data<float>() + b * count * 3 * kDim);
      positions.data<std::int32_t>()[b] = static_cast<std::int32_t>(at);
    }
    const auto outputs = run(rows, {"",
                                    Op::kAttentionCached,
                                    attrs,
                                    {part, keys, values, positions},
                                    {y_shape(count), keys.shape, values.shape},
                                    {{1, 1}, {2, 2}},
                                    {}});
    keys = outputs[1], values = outputs[2];
    for (std::int64_t b = 0; b < kBatch; ++b)
      CHECK(std::memcmp(full.data<float>() + (b * kTime + at) * kDim, outputs[0].data<float>() + b * count * kDim,
                        static_cast<std::size_t>(count * kDim) * sizeof(float)) == 0);
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
  row_alone(rows, {"", Op::kSoftmax, {}, {x}, {same}, {}, {}}, 1);
  row_alone(rows, {"", Op::kGelu, {}, {x}, {same}, {}, {}}, 1);
}

}  // namespace

TEST_CASE("decoding: ref has the bits of full evaluation") {
  decode_equals_full(ref_kernels());
  rows_are_independent(ref_kernels());
}

TEST_CASE("decoding: avx512 has the bits of full evaluation") {
  try {
    parse_level("avx512");
  } catch (const Error& error) {
    MESSAGE("skipped: " << error.message);
    return;
  }
  decode_equals_full(avx512_kernels());
  rows_are_independent(avx512_kernels());
}

}  // namespace mlx::kernels::test
