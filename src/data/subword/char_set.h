// Sets of characters, as the brackets and escapes of a regular expression name them. Used by regex.h.
#pragma once

#include <cstdint>
#include <vector>

#include "data/subword/unicode.h"

namespace mlx::data::subword {

class CharSet {
 public:
  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add(CategorySet categories) { categories_ |= categories; }
  void add_not(CategorySet categories) { categories_ |= ~categories; }
  void add_script(std::uint8_t script, bool negated) { scripts_.push_back({script, negated}); }
  void add_white_space(bool negated) { (negated ? not_white_space_ : white_space_) = true; }
  void add_word(bool negated) { (negated ? not_word_ : word_) = true; }
  void add(CharSet set) { parts_.push_back(std::move(set)); }
  void intersect(CharSet set) { limits_.push_back(std::move(set)); }
  void negate() { negated_ = !negated_; }
  void ignore_case() { ignores_case_ = true; }
  // After the last change: prepares the answers for ASCII.
  void finish();

  bool has(char32_t code) const { return code < 128 ? (ascii_[code >> 6] >> (code & 63) & 1) != 0 : find(code); }
  bool operator==(const CharSet&) const = default;

 private:
  bool find(char32_t code) const;
  bool find_exact(char32_t code) const;

  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
  };
  struct Script {
    std::uint8_t script;
    bool negated;
    bool operator==(const Script&) const = default;
  };
  std::vector<Range> ranges_;
  std::vector<Script> scripts_;
  std::vector<CharSet> parts_, limits_;
  CategorySet categories_ = 0;
  bool white_space_ = false, not_white_space_ = false, word_ = false, not_word_ = false;
  bool negated_ = false, ignores_case_ = false;
  std::uint64_t ascii_[2] = {};
};

}  // namespace mlx::data::subword
