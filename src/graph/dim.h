// A size in a graph: a number, or an expression over symbols (batch, sequence) that a session binds. Used by shape
// rules, sessions and model.json.
//
// An expression is a sum of a number and of products of symbols with whole factors: 2 * batch * sequence + 1. It stands
// in normal form always, so that == says whether two sizes are equal whatever the symbols are. Capacity is fixed:
// nothing here allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx::graph {

class Dim {
 public:
  static constexpr std::size_t kMaxTerms = 4, kMaxSymbols = 4;  // of a sum; of a product
  struct Term {
    std::int64_t factor = 0;                                        // 0: there is no such term
    std::array<std::int16_t, kMaxSymbols> symbols{-1, -1, -1, -1};  // ascending, then -1
    bool operator==(const Term&) const = default;
  };

  std::int64_t size = 0;                // the number; all of the size where it is not symbolic
  std::array<Term, kMaxTerms> terms{};  // by symbols, then empty ones

  static Dim of(std::int64_t size) {
    Dim dim;
    dim.size = size;
    return dim;
  }
  static Dim sym(int symbol);  // an index into Graph::symbols
  bool symbolic() const { return terms[0].factor != 0; }
  int symbol() const;       // which one it is, where it is nothing else; otherwise -1
  int last_symbol() const;  // the largest index in it, -1 for none
  // With the symbols bound to these sizes. Saturates far beyond any tensor. kUsage for a symbol that is less than 1,
  // std::out_of_range for one that has no size.
  std::int64_t bound(const std::vector<std::int64_t>& symbol_sizes) const;
  bool operator==(const Dim&) const = default;
};

// Throw kUsage where the result has more terms than fit, or numbers that overflow.
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);

using Dims = std::vector<Dim>;
Dim product_of(std::span<const Dim> dims);

}  // namespace mlx::graph
