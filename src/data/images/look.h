// How an image looks, in 72 bytes: what images that look alike are found by. Used by statistics of datasets and by the
// search for leaks before a training.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace mlx::data {

struct Look {
  std::uint64_t gradient = 0;           // dHash (Krawetz, 2013): the signs of differences in 9 x 8 grey values
  std::array<std::uint8_t, 64> grey{};  // 8 x 8 means
};

Look look_of(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels);

// Images look alike if at most kBits of their gradients' signs and on average kGrey of their grey values differ.
constexpr int kAlikeBits = 3, kAlikeGrey = 4;
bool alike(const Look& a, const Look& b);

// Finds looks that are alike by parts of their gradients: those that differ in at most three bits are equal in one of
// four parts. Of one part's looks only the first kMostCompared are compared, which bounds the work where all images
// look the same.
class LookIndex {
 public:
  static constexpr std::size_t kMostCompared = 256;
  // `looks` outlives the index.
  explicit LookIndex(const std::vector<Look>& looks) : looks_(looks) {}
  void add(std::size_t image);
  // Calls found(image) for each image that looks alike and for which `wanted` holds, which is asked first; for some
  // more than once.
  template <typename Wanted, typename Found>
  void each(const Look& look, Wanted wanted, Found found) const {
    for (unsigned part = 0; part < kParts; ++part) {
      const auto list = parts_.find(key(look.gradient, part));
      if (list == parts_.end()) continue;
      for (const std::uint32_t image : list->second)
        if (wanted(std::size_t{image}) && alike(looks_[image], look)) found(std::size_t{image});
    }
  }
  // The first image that looks alike and for which `wanted` holds.
  template <typename Wanted>
  std::optional<std::size_t> find(const Look& look, Wanted wanted) const {
    std::optional<std::size_t> first;
    each(
        look, [&](std::size_t image) { return (!first || image < *first) && wanted(image); },
        [&](std::size_t image) { first = image; });
    return first;
  }

 private:
  static constexpr unsigned kParts = 4;
  static std::uint32_t key(std::uint64_t gradient, unsigned part) {
    return part << 16 | static_cast<std::uint32_t>(gradient >> (16 * part) & 0xFFFF);
  }
  const std::vector<Look>& looks_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> parts_;
};

}  // namespace mlx::data
