// Regular expressions whose time and memory are bounded, because patterns and values may come from anyone: a program of
// at most kMost steps, run over all of a value's possible matches at once (Thompson, 1968), never by backtracking.
//
// Literals, . [a-z] [^…] \d \w \s \D \W \S \. | ( ) (?: ) * + ? {m} {m,} {m,n} ^ $. The whole value must match. Values
// are UTF-8; a byte that is not stands for itself. No back references, no look-around.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/interruption.h"

namespace mlx::data {

class Pattern {
 public:
  static constexpr std::size_t kMost = 10000;
  explicit Pattern(std::string_view text);  // kUsage: what is wrong, and at which byte
  // Throws kInterrupted soon after `interruption`, if there is one: a long value may take minutes.
  bool matches(std::string_view value, const Interruption* interruption = nullptr) const;

 private:
  friend class PatternParser;
  using Ranges = std::vector<std::pair<char32_t, char32_t>>;
  struct Step {
    enum class Kind { kSet, kSplit, kJump, kBegin, kEnd, kMatch } kind = Kind::kMatch;
    std::size_t to = 0, other = 0;  // of kSet: an index into sets_; of kSplit and kJump: steps
  };
  std::vector<Step> steps_;
  std::vector<Ranges> sets_;
};

}  // namespace mlx::data
