// 64-bit hashes of content: for counting what differs, finding what is equal, and dividing items into splits. The
// division of a dataset follows from them, so they never change.
#pragma once

#include <cstdint>
#include <string_view>

namespace mlx::data {

// 64 bits that differ for different bytes; not against someone who looks for collisions.
std::uint64_t hash_of(std::string_view bytes);
std::uint64_t mixed(std::uint64_t bits);  // the finalizer of SplitMix64

}  // namespace mlx::data
