// The tree of a regular expression, as it is written. Used by regex_compile.cpp.
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/char_set.h"
#include "data/subword/regex.h"

namespace mlx::data::subword {

struct RegexNode {
  enum class Kind : std::uint8_t { kEmpty, kLeaf, kSequence, kAlternatives, kRepeat, kLook, kAtomic };
  Kind kind = Kind::kEmpty;
  Regex::Instruction leaf;  // of kLeaf, and the flags of kRepeat and kLook
  CharSet set;              // of kSet
  std::vector<RegexNode> parts;
};

// Why a pattern is refused.
struct RegexRefused {
  std::string why;
};

constexpr std::uint32_t kUnlimitedRepeats = std::numeric_limits<std::uint32_t>::max();

// Throws RegexRefused. The depth of the tree is bounded.
RegexNode parse_regex(std::string_view pattern);
// Adds the bytes that a match can begin with; false if it can be empty, or they are not known.
bool add_first_bytes(const RegexNode& node, std::bitset<256>& bytes);

}  // namespace mlx::data::subword
