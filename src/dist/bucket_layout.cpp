#include "dist/bucket_layout.h"

#include <algorithm>
#include <array>
#include <optional>

#include "dist/halving.h"

namespace mlx::dist {
namespace {

// So small that the first ones are on their way early in the backward pass, and the last is soon done after it. Each
// costs the work of a message.
std::int64_t bucket_bytes(const std::vector<SummedArray>& arrays) {
  constexpr std::int64_t kParts = 8, kLeast = std::int64_t{256} << 10;
  std::int64_t all = 0;
  for (const SummedArray& array : arrays) all += array.count * static_cast<std::int64_t>(sizeof(float));
  return std::clamp(all / kParts, kLeast, kBucketBytes);
}

// Of all places where a rank's part may end, those that are nearest to equal parts.
std::vector<std::int64_t> bounds_of(const std::vector<std::int64_t>& ends, std::int64_t elements, int ranks) {
  std::vector<std::int64_t> bounds{0};
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t wanted = elements * rank / ranks;
    auto nearest = std::ranges::lower_bound(ends, wanted);
    if (nearest == ends.end() || (nearest != ends.begin() && wanted - *(nearest - 1) < *nearest - wanted)) --nearest;
    bounds.push_back(std::max(bounds.back(), *nearest));
  }
  bounds.push_back(elements);
  return bounds;
}

}  // namespace

BucketLayout layout_of(const std::vector<SummedArray>& arrays, int ranks) {
  constexpr std::int64_t kElement = sizeof(float);
  const std::int64_t most = bucket_bytes(arrays);
  BucketLayout out;
  std::array<std::optional<std::size_t>, 4> open;  // of each wire, for all and owned
  std::vector<std::vector<std::int64_t>> ends;     // by bucket: where a rank's part may end
  for (const SummedArray& array : arrays) {
    std::optional<std::size_t>& at = open.at(2 * static_cast<std::size_t>(array.wire) + (array.owned ? 1 : 0));
    if (!at || (out.buckets[*at].elements + array.count) * kElement > most) {
      at = out.buckets.size();
      out.buckets.push_back({.wire = array.wire, .owned = array.owned});
      ends.push_back({0});
    }
    BucketLayout::Bucket& bucket = out.buckets[*at];
    for (const std::int64_t cut : array.cuts) ends[*at].push_back(bucket.elements + cut);
    out.places.push_back({*at, bucket.elements, array.count});
    bucket.elements += array.count;
    ++bucket.arrays;
    ends[*at].push_back(bucket.elements);
  }
  for (std::size_t i = 0; i < out.buckets.size(); ++i) {
    BucketLayout::Bucket& bucket = out.buckets[i];
    if (bucket.owned) bucket.bounds = bounds_of(ends[i], bucket.elements, ranks);
  }
  return out;
}

ArrayPiece piece_of(const BucketLayout& layout, std::size_t array, int rank) {
  const BucketLayout::Place& place = layout.places[array];
  const std::vector<std::int64_t>& bounds = layout.buckets[place.bucket].bounds;
  const auto in_array = [&](std::int64_t element) {
    return std::clamp<std::int64_t>(element - place.begin, 0, place.count);
  };
  const auto at = static_cast<std::size_t>(part_of(rank, static_cast<int>(bounds.size()) - 1));
  return {array, in_array(bounds[at]), in_array(bounds[at + 1])};
}

}  // namespace mlx::dist
