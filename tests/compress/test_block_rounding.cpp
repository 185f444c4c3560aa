// Weights in blocks: what rounding loses, and the edges of what a block holds.
#include "compress/block_rounding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace mlx;
using namespace mlx::compress;

namespace {

// The root of the squared error, as a share of the weights'.
double loss_of(const kernels::BlockType& type, const std::vector<float>& w, const std::vector<float>& importance = {}) {
  std::vector<std::uint8_t> block(static_cast<std::size_t>(type.bytes));
  kernels::UnpackedBlock unpacked{};
  REQUIRE(round_block(type, w, importance, unpacked));
  pack_block(type, unpacked, block.data());
  std::vector<float> back(w.size());
  kernels::expand_blocks(type, block.data(), 1, back.data());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < w.size(); ++i)
    error += (importance.empty() ? 1 : double{importance[i]}) * std::pow(double{back[i]} - double{w[i]}, 2),
        size += (importance.empty() ? 1 : double{importance[i]}) * double{w[i]} * double{w[i]};
  return size > 0 ? std::sqrt(error / size) : std::sqrt(error);
}

std::vector<float> normal_weights(unsigned seed, float mean) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, 0.02f);
  std::vector<float> w(kernels::kBlockWeights);
  for (float& x : w) x = normal(random);
  return w;
}

}  // namespace

TEST_CASE("block weights: normal weights lose what the bits allow, and weights beside 0 are lowered") {
  const std::pair<std::int64_t, double> most[] = {{kernels::kQ2K, 0.32},
                                                  {kernels::kQ3K, 0.18},
                                                  {kernels::kQ4K, 0.078},
                                                  {kernels::kQ5K, 0.039},
                                                  {kernels::kQ6K, 0.019}};
  for (const auto& [number, bound] : most) {
    const kernels::BlockType& type = *kernels::find_block_type(number);
    CAPTURE(type.name);
    for (unsigned seed = 1; seed <= 20; ++seed) {
      CHECK(loss_of(type, normal_weights(seed, 0)) < bound);
      if (type.lowered) CHECK(loss_of(type, normal_weights(seed, -0.1f)) < bound / 4);
    }
  }
}

TEST_CASE("block weights: zeros, one weight alone, and what f16 cannot hold") {
  for (std::int64_t number = kernels::kQ2K; number <= kernels::kQ6K; ++number) {
    const kernels::BlockType& type = *kernels::find_block_type(number);
    CAPTURE(type.name);
    std::vector<float> w(kernels::kBlockWeights, 0.0f);
    CHECK(loss_of(type, w) == 0);
    for (const float alone : {1.0f, -1.0f}) {
      w[77] = alone;
      CHECK(loss_of(type, w) < 0.01);
    }
    kernels::UnpackedBlock block{};
    w[77] = 1e30f;
    CHECK_FALSE(round_block(type, w, {}, block));
    for (const float strange : {std::nanf(""), INFINITY}) {
      w[77] = strange;
      CHECK_FALSE(round_block(type, w, {}, block));
    }
  }
}
