// Draws and applies augmentations. Rows are copied whole, and no pixel is read twice.

#include "data/images/augment.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/philox.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kAugmentStream = 0x6175676D656E74ull;  // "augment"
constexpr std::uint64_t kShareStream = 0x7368617265ull;        // "share"
constexpr std::uint64_t kPartnerStream = 0x706172746E6572ull;  // "partner"

// Maps `bits` (uniform over 2^width) to 0 … count-1.
std::int64_t below(std::uint32_t bits, int width, std::int64_t count) {
  return static_cast<std::int64_t>((std::uint64_t{bits} * static_cast<std::uint64_t>(count)) >> width);
}

void write_row(const PixelTable& table, const ImageSize& size, const Change& change, const std::uint8_t* from,
               float* to) {
  const std::int64_t left = std::max<std::int64_t>(change.right, 0), right = std::max<std::int64_t>(-change.right, 0);
  const std::int64_t kept = size.width - left - right;
  table.fill_black(left, to);
  // A row shifted right loses its end, one shifted left its beginning. In a mirrored row these are swapped in `from`.
  if (change.flip) {
    table.apply_mirrored(from + left * size.channels, kept, to + left * size.channels);
  } else {
    table.apply(from + right * size.channels, kept, to + left * size.channels);
  }
  table.fill_black(right, to + (left + kept) * size.channels);
}

}  // namespace

Mix draw_mix(double alpha, std::int64_t count, std::uint64_t seed, std::uint64_t step) {
  Mix mix;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const auto random = kernels::random_block(seed, kShareStream, step, attempt);
    const double x = std::pow((random[0] + 0.5) * 0x1p-32, 1 / alpha),
                 y = std::pow((random[1] + 0.5) * 0x1p-32, 1 / alpha);
    if (x + y > 1) continue;
    mix.share = static_cast<float>(x / (x + y));
    break;
  }
  mix.partner.resize(static_cast<std::size_t>(count));
  std::iota(mix.partner.begin(), mix.partner.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i) {
    const std::uint32_t bits = kernels::random_u32(seed, kPartnerStream, step, static_cast<std::uint64_t>(i));
    std::swap(mix.partner[static_cast<std::size_t>(i)], mix.partner[static_cast<std::size_t>(below(bits, 32, i + 1))]);
  }
  return mix;
}

Change draw_change(const Augment& augment, const ImageSize& size, std::uint64_t seed, std::uint64_t epoch,
                   std::uint64_t index) {
  Change change;
  if (augment.shift == 0 && !augment.flip && augment.erase == 0) return change;
  const auto random = kernels::random_block(seed, kAugmentStream, epoch, index);
  change.down = below(random[0], 32, 2 * augment.shift + 1) - augment.shift;
  change.right = below(random[1], 32, 2 * augment.shift + 1) - augment.shift;
  change.flip = augment.flip && random[2] >> 31 != 0;
  change.erase = augment.erase;
  change.top = below(random[3] >> 16, 16, size.height - augment.erase + 1);
  change.left = below(random[3] & 0xFFFF, 16, size.width - augment.erase + 1);
  return change;
}

void write_image(const PixelTable& table, const ImageSize& size, const Change& change, const std::uint8_t* from,
                 float* to) {
  const std::int64_t row = size.width * size.channels;
  if (change.down == 0 && change.right == 0 && !change.flip) {
    table.apply(from, size.height * size.width, to);
  } else {
    for (std::int64_t y = 0; y < size.height; ++y) {
      const std::int64_t source = y - change.down;
      if (source < 0 || source >= size.height) {
        table.fill_black(size.width, to + y * row);
      } else {
        write_row(table, size, change, from + source * row, to + y * row);
      }
    }
  }
  for (std::int64_t y = change.top; y < change.top + change.erase; ++y) {
    float* const begin = to + y * row + change.left * size.channels;
    std::fill(begin, begin + change.erase * size.channels, 0.0f);
  }
}

}  // namespace mlx::data
