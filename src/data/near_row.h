// Rows that differ only in how they are written, or by noise in their last digits: each row has two hashes, and two
// rows are near-duplicates if they agree in either. Used by statistics of datasets and before a training.
//
// What does not count: the order of columns; in texts the case of ASCII letters, white space at the ends, and how much
// of it stands between words; in numbers how they are spelled (3.50, 3.5, 35e-1) and differences below the grid. Whole
// numbers, and the whole part of every other, always count. The grid is a share of the value, of 2^-17 for two numbers
// in a row and twice as coarse for twice as many, so that noise of a millionth crosses no line of it in most rows: each
// number is rounded to the nearest line for one hash and towards 0 for the other. Rows with fewer than two numbers that
// are not whole are equal by chance too often; theirs are compared exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlx::data {

struct NearHashes {
  std::uint64_t nearest = 0, down = 0;  // 0: there is none, or it would say the same as `nearest`
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

}  // namespace mlx::data
