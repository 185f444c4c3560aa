// Near-duplicates of rows and lines by hashes: each item has two, and two items are near-duplicates if they agree in
// either. Used by statistics of datasets and before a training.
//
// Of rows it does not count: the order of columns; in texts white space at the ends, how much of it stands between
// words, and the case of ASCII letters unless the text is as short as a code; in numbers how they are spelled
// (3.50, 3.5, 35e-1) and differences below the grid. Its lines are 2^-17 of the value apart for three numbers in a row
// and twice as far for twice as many, so that noise of a millionth crosses none in most rows, but never more than 1, so
// that whole numbers count. Each number is rounded to the nearest line for one hash and towards 0 for the other. Rows
// with fewer than three numbers that are not whole are equal by chance too often; theirs are compared exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlx::data {

struct NearHashes {
  std::uint64_t first = 0, second = 0;  // 0: there is none, or it would say the same as the first
};

// The cells of one row after another. A column is named by a hash.
class NearRow {
 public:
  void number(std::uint64_t column, double value) { numbers_.push_back({column, value}); }
  void text(std::uint64_t column, std::string_view text) { folded(column, folded_hash(text)); }
  // With the result of folded_hash().
  void folded(std::uint64_t column, std::uint64_t hash);
  std::uint64_t folded_hash(std::string_view text);
  // Of the cells since the last call.
  NearHashes finish();

 private:
  struct Number {
    std::uint64_t column = 0;
    double value = 0;
  };
  std::vector<Number> numbers_;
  std::uint64_t texts_ = 0;
  std::string folded_;
};

// The code of a category's value that a schema does not know, below kNoCode: values of one hash have one. 30 bits of
// the hash, so that rows in memory and on disk need no more room. Other values can have the same, one in 2^30.
constexpr std::int32_t kNoCode = -1;  // of no value
constexpr std::uint64_t kCodeBits = (std::uint64_t{1} << 30) - 1;
inline std::int32_t code_of_unknown(std::uint64_t folded_hash) {
  return kNoCode - 1 - static_cast<std::int32_t>(folded_hash & kCodeBits);
}

// Lines of text are near-duplicates if they share nearly all pairs of words that follow one another. Words are letters,
// digits and bytes above 127, without case. Each hash is made of six minima over the pairs (MinHash: Broder, 1997), so
// lines that share a part J of all their pairs agree with probability 1 - (1 - J^6)^2: 78 % for 0.9, 0.1 % for 0.3.
// Lines of fewer than kFewestWords agree only if all their words do.
constexpr std::size_t kFewestWords = 5;
NearHashes near_hashes_of_line(std::string_view line);

}  // namespace mlx::data
