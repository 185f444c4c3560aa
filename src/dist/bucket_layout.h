// How the arrays of a step are put into buckets, and which pieces of them each rank owns if it is to get the sums of
// its own pieces only. It follows from the arrays and the number of ranks alone, so all ranks know what each one has.
#pragma once

#include <cstdint>
#include <vector>

#include "dist/wire.h"

namespace mlx::dist {

struct SummedArray {
  std::int64_t count = 0;  // elements
  Wire wire = Wire::kF32;
  bool owned = false;  // each rank gets the sums of the pieces that it owns; else all get all
  // Of an owned array: where a piece may end, beside its ends. Ascending.
  std::vector<std::int64_t> cuts{};
};

// Elements [begin, end) of an array.
struct ArrayPiece {
  std::size_t array = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

struct BucketLayout {
  struct Place {  // of an array
    std::size_t bucket = 0;
    std::int64_t begin = 0, count = 0;
  };
  struct Bucket {
    std::int64_t elements = 0;
    std::size_t arrays = 0;
    Wire wire = Wire::kF32;
    bool owned = false;
    std::vector<std::int64_t> bounds{};  // if it is owned: part p is elements [bounds[p], bounds[p + 1])
  };
  std::vector<Place> places;
  std::vector<Bucket> buckets;
};
// Arrays in order. What is summed for all and what is owned are in different buckets, and so are types on the wire.
BucketLayout layout_of(const std::vector<SummedArray>& arrays, int ranks);
// What a rank owns of an owned array, which may be nothing.
ArrayPiece piece_of(const BucketLayout& layout, std::size_t array, int rank);

inline constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;  // the most, unless an array has more

}  // namespace mlx::dist
