// A size in a graph: a number, or an expression over symbols (batch, sequence) that a session binds. Used by shape
// rules, sessions and model.json.
//
// An expression is a sum of a number and of products of symbols with integer factors: 2 * batch * sequence + 1. It is
// always in normal form, so == is true exactly if two sizes are equal for all values of the symbols. Capacity is fixed:
// nothing here allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx::graph {

class Dim {
 public:
  static constexpr std::size_t kMaxTerms = 4, kMaxSymbols = 4;  // in a sum; in a product
  struct Term {
    std::int64_t factor = 0;                                        // 0: no term
    std::array<std::int16_t, kMaxSymbols> symbols{-1, -1, -1, -1};  // ascending, then -1
    bool operator==(const Term&) const = default;
  };

  std::int64_t size = 0;                // the number; the whole size if it is not symbolic
  std::array<Term, kMaxTerms> terms{};  // ordered by symbols, then empty ones

  static Dim of(std::int64_t size) {
    Dim dim;
    dim.size = size;
    return dim;
  }
  static Dim sym(int symbol);  // an index into Graph::symbols
  bool symbolic() const { return terms[0].factor != 0; }
  int symbol() const;       // the symbol if the size is just that, else -1
  int last_symbol() const;  // the largest index in it, or -1
  // The size with these symbol values. Saturates far beyond any tensor's size. Throws kUsage for a symbol value below
  // 1, std::out_of_range for a symbol without a value.
  std::int64_t bound(const std::vector<std::int64_t>& symbol_sizes) const;
  bool operator==(const Dim&) const = default;
};

// Throw kUsage if the result has too many terms, or overflows.
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);

using Dims = std::vector<Dim>;
Dim product_of(std::span<const Dim> dims);

}  // namespace mlx::graph
