// Philox 4x32-10 against the known answers that its authors publish with Random123 (Salmon et al., SC 2011).
#include <doctest/doctest.h>

#include "kernels/philox.h"

namespace mlx::kernels {

TEST_CASE("philox: known answers of Random123") {
  using Numbers = std::array<std::uint32_t, 4>;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Numbers{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == Numbers{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Numbers{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: elements are the four numbers of their block, and differ by seed, stream and step") {
  for (std::uint64_t element = 0; element < 16; ++element)
    CHECK(random_u32(1, 2, 3, element) == random_block(1, 2, 3, element / 4)[element % 4]);
  CHECK(random_u32(1, 2, 3, 0) != random_u32(2, 2, 3, 0));
  CHECK(random_u32(1, 2, 3, 0) != random_u32(1, 3, 3, 0));
  CHECK(random_u32(1, 2, 3, 0) != random_u32(1, 2, 4, 0));
  CHECK(to_unit(0xffffffff) < 1.0f);
  CHECK(to_unit(0) == 0.0f);
}

}  // namespace mlx::kernels
