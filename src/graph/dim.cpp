// Arithmetic of sizes in normal form (dim.h).
#include "graph/dim.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace mlx::graph {
namespace {

using Term = Dim::Term;

[[noreturn]] void refuse() {
  fail(ErrorKind::kUsage, "a size is too complex: it may have {} terms of {} symbols and numbers of 63 bits",
       Dim::kMaxTerms, Dim::kMaxSymbols);
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  if (__builtin_add_overflow(a, b, &a)) refuse();
  return a;
}
std::int64_t multiply(std::int64_t a, std::int64_t b) {
  if (__builtin_mul_overflow(a, b, &a)) refuse();
  return a;
}

// Sums terms with the same symbols, drops those that vanish, and keeps the order.
class Sum {
 public:
  void add(const Term& term) {
    if (term.factor == 0) return;
    std::size_t at = 0;
    while (at < count_ && terms_[at].symbols < term.symbols) ++at;
    if (at < count_ && terms_[at].symbols == term.symbols) {
      terms_[at].factor = graph::add(terms_[at].factor, term.factor);
      if (terms_[at].factor != 0) return;
      for (--count_; at < count_; ++at) terms_[at] = terms_[at + 1];
      return;
    }
    if (count_ == terms_.size()) refuse();
    for (std::size_t k = count_++; k > at; --k) terms_[k] = terms_[k - 1];
    terms_[at] = term;
  }
  Dim dim(std::int64_t size) const {
    if (count_ > Dim::kMaxTerms) refuse();
    Dim dim = Dim::of(size);
    std::copy_n(terms_.begin(), count_, dim.terms.begin());
    return dim;
  }

 private:
  std::array<Term, 2 * Dim::kMaxTerms * Dim::kMaxTerms> terms_{};
  std::size_t count_ = 0;
};

Term product(const Term& a, const Term& b) {
  Term both;
  both.factor = multiply(a.factor, b.factor);
  // Merges two ascending lists.
  std::size_t i = 0, j = 0, count = 0;
  const auto at = [](const Term& term, std::size_t k) {
    return k < term.symbols.size() && term.symbols[k] >= 0 ? term.symbols[k] : std::numeric_limits<int>::max();
  };
  while (std::min(at(a, i), at(b, j)) < std::numeric_limits<int>::max()) {
    if (count == both.symbols.size()) refuse();
    both.symbols[count++] = at(a, i) <= at(b, j) ? a.symbols[i++] : b.symbols[j++];
  }
  return both;
}

Dim sum(const Dim& a, const Dim& b, std::int64_t factor) {
  Sum terms;
  for (const Term& term : a.terms) terms.add(term);
  for (Term term : b.terms) {
    term.factor = multiply(term.factor, factor);
    terms.add(term);
  }
  return terms.dim(add(a.size, multiply(b.size, factor)));
}

}  // namespace

Dim Dim::sym(int symbol) {
  CHECK(symbol >= 0 && symbol <= std::numeric_limits<std::int16_t>::max());
  Dim dim;
  dim.terms[0].factor = 1;
  dim.terms[0].symbols[0] = static_cast<std::int16_t>(symbol);
  return dim;
}

int Dim::symbol() const {
  const bool alone = size == 0 && terms[0].factor == 1 && terms[0].symbols[1] < 0 && terms[1].factor == 0;
  return alone ? terms[0].symbols[0] : -1;
}

int Dim::last_symbol() const {
  int last = -1;
  for (const Term& term : terms)
    for (const std::int16_t symbol : term.symbols) last = std::max<int>(last, symbol);
  return last;
}

std::int64_t Dim::bound(const std::vector<std::int64_t>& symbol_sizes) const {
  if (!symbolic()) return size;
  __int128 sum = size;
  constexpr __int128 kMost = __int128{1} << 62;
  for (const Term& term : terms) {
    __int128 value = term.factor;
    for (const std::int16_t symbol : term.symbols) {
      if (symbol < 0 || value == 0) break;
      const std::int64_t symbol_size = symbol_sizes.at(static_cast<std::size_t>(symbol));
      if (symbol_size < 1) fail(ErrorKind::kUsage, "a symbol of a size is {}, it must be at least 1", symbol_size);
      value *= symbol_size;
      value = std::clamp(value, -kMost, kMost);
    }
    sum += value;
  }
  return static_cast<std::int64_t>(std::clamp(sum, -kMost, kMost));
}

Dim operator+(const Dim& a, const Dim& b) {
  return sum(a, b, 1);
}

Dim operator-(const Dim& a, const Dim& b) {
  return sum(a, b, -1);
}

Dim operator*(const Dim& a, const Dim& b) {
  Sum terms;
  const auto with = [&](Term term, std::int64_t factor) {
    term.factor = multiply(term.factor, factor);
    terms.add(term);
  };
  for (const Term& term : a.terms) with(term, b.size);
  for (const Term& term : b.terms) with(term, a.size);
  for (const Term& x : a.terms)
    for (const Term& y : b.terms)
      if (x.factor != 0 && y.factor != 0) terms.add(product(x, y));
  return terms.dim(multiply(a.size, b.size));
}

Dim product_of(std::span<const Dim> dims) {
  Dim all = Dim::of(1);
  for (const Dim& dim : dims) all = all * dim;
  return all;
}

}  // namespace mlx::graph
