// Philox 4x32-10 counter-based random numbers (Salmon et al., SC 2011): each element's number is computed independently
// of the others.
#pragma once

#include <array>
#include <cstdint>

namespace mlx::kernels {

constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Four numbers for elements 4·block … 4·block+3 of (seed, stream, step).
constexpr std::array<std::uint32_t, 4> random_block(std::uint64_t seed, std::uint64_t stream, std::uint64_t step,
                                                    std::uint64_t block) {
  const std::uint64_t mixed = stream * 0x9E3779B97F4A7C15u + step;
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                 static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}
constexpr std::uint32_t random_u32(std::uint64_t seed, std::uint64_t stream, std::uint64_t step,
                                   std::uint64_t element) {
  return random_block(seed, stream, step, element / 4)[element % 4];
}
constexpr float to_unit(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}  // [0, 1)

}  // namespace mlx::kernels
