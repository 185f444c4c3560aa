// What kernels/cuda adds beside a norm has the bits of an addition of its own, before the norm or behind its gradient:
// on a GPU too, where a sum behind a product may become part of it.
#include <doctest/doctest.h>

#include "base/error.h"
#include "cases.h"

namespace mlx::kernels::test {
namespace {

std::vector<Tensor> run(const CudaTable& table, const Case& test) {
  for (const Kernel& kernel : table.kernels) {
    Prepared prepared;
    std::string damage;
    if (kernel.op != test.op || !prepare_case(kernel, test, prepared)) continue;
    std::vector<Tensor> outputs = run_case(prepared.plan(), test, {}, damage, table.device);
    CHECK(damage.empty());
    return outputs;
  }
  return {};
}

void check_same(const std::vector<Tensor>& fused, const std::vector<Tensor>& apart, std::int64_t width) {
  CAPTURE(width);
  REQUIRE((!fused.empty() && fused.size() == apart.size()));
  for (std::size_t i = 0; i < fused.size(); ++i) {
    CAPTURE(i);
    CHECK(fused[i].bytes == apart[i].bytes);
  }
}

struct NormProblem {
  Tensor x, residual, gamma, beta, dy, dsum;
  Shape whole, each, columns, y;
};

void check_layer_norm(const CudaTable& table, const NormProblem& p, std::int64_t width, const Tensor& sum) {
  const Case fused{"", Op::kLayerNorm, {}, {p.x, p.gamma, p.beta, p.residual}, {p.y, p.each, p.each, p.whole}, {}, {}};
  auto apart = run(table, {"", Op::kLayerNorm, {}, {sum, p.gamma, p.beta}, {p.y, p.each, p.each}, {}, {}});
  const Tensor mean = apart[1], rstd = apart[2];
  apart.push_back(sum);
  check_same(run(table, fused), apart, width);
  Case back{"", Op::kLayerNormBackward, {}, {sum, p.dy, p.gamma, mean, rstd}, {p.whole, p.columns, p.columns}, {}, {}};
  auto gradients = run(table, back);
  gradients[0] = run(table, {"", Op::kAdd, {}, {p.dsum, gradients[0]}, {p.whole}, {}, {}})[0];
  back.inputs.push_back(p.dsum);
  check_same(run(table, back), gradients, width);
}

void check_rms_norm(const CudaTable& table, const NormProblem& p, std::int64_t width, const Tensor& sum) {
  auto apart = run(table, {"", Op::kRmsNorm, {}, {sum, p.gamma}, {p.y, p.each}, {}, {}});
  const Tensor rstd = apart[1];
  apart.push_back(sum);
  check_same(run(table, {"", Op::kRmsNorm, {}, {p.x, p.gamma, p.residual}, {p.y, p.each, p.whole}, {}, {}}), apart,
             width);
  Case back{"", Op::kRmsNormBackward, {}, {sum, p.dy, p.gamma, rstd}, {p.whole, p.columns}, {}, {}};
  auto gradients = run(table, back);
  gradients[0] = run(table, {"", Op::kAdd, {}, {p.dsum, gradients[0]}, {p.whole}, {}, {}})[0];
  back.inputs.push_back(p.dsum);
  check_same(run(table, back), gradients, width);
}

void check_bits(const CudaTable& table) {
  for (const std::int64_t width : {64, 300, 513, 768, 900, 1540, 3000, 4100, 8196}) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const Dims dims{11, width};
      const Tensor residual = stored(random(dims, 2), type), dy = stored(random(dims, 5), type);
      const NormProblem p{random(dims, 1), residual,  random({width}, 3), random({width}, 4), dy,
                          random(dims, 6), f32(dims), f32({11}),          f32({width}),       shape_of(type, dims)};
      const Tensor whole =
          type == DType::kF32 ? residual : run(table, {"", Op::kCast, {}, {residual}, {p.whole}, {}, {}})[0];
      const Tensor sum = run(table, {"", Op::kAdd, {}, {p.x, whole}, {p.whole}, {}, {}})[0];
      check_layer_norm(table, p, width, sum);
      check_rms_norm(table, p, width, sum);
    }
  }
}

}  // namespace

TEST_CASE("residual norms: on cuda a sum fused into a norm has the bits of a separate sum") {
  try {
    check_bits({cuda_kernels(), cuda_device()});
  } catch (const Error& error) {
    MESSAGE("skipped: " << error.message);
  }
}

TEST_CASE("residual norms: on cuda, emulated, a sum fused into a norm has the bits of a separate sum") {
  check_bits(emulated_cuda());
}

}  // namespace mlx::kernels::test
