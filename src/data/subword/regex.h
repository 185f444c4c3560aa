// Regular expressions as published tokenizers use them, in the syntax and with the meaning of Oniguruma: the first
// match from the left, its alternatives in order, greedy, lazy and possessive repetition. Used by pre-tokenisers and
// normalisers (pre_tokenizer.h, normalizer.h).
//
// What is known: characters and escapes, classes with ranges, negation, nesting and &&, \s \d \w \h, \p{…} of general
// categories and scripts, groups (capturing ones only group), (?i:…), look-ahead, look-behind of a fixed length, atomic
// groups, ^ $ \A \z \Z \b \B. Other syntax is refused by name, and so is a repetition of what may be empty.
//
// Backtracking is bounded: a pattern that takes more than a number of steps for each byte of the text is an error, so
// that a hostile file costs seconds at most.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/char_set.h"

namespace mlx::data::subword {

class Regex {
 public:
  // Throws kCorrupt: "WHAT: the pattern … : why".
  Regex(std::string_view pattern, std::string_view what);

  struct Match {
    std::size_t begin = 0, end = 0;
  };
  // Steps that all searches in one text may take together.
  class Budget {
   public:
    explicit Budget(std::string_view text) : left_(kStepsAtLeast + kStepsPerByte * text.size()) {}
    bool spend() { return left_-- > 0; }

   private:
    static constexpr std::int64_t kStepsAtLeast = 1 << 20, kStepsPerByte = 256;
    std::int64_t left_;
  };
  // The first match at or after `from`. Throws kUsage if the budget is spent.
  std::optional<Match> find(std::string_view text, std::size_t from, Budget& budget) const;
  // Calls `visit(begin, end, is_match)` for all matches of a text and what is between them, in order; empty matches
  // only where no match ends.
  template <typename Visit>
  void each(std::string_view text, Budget& budget, const Visit& visit) const;
  template <typename Visit>
  void each(std::string_view text, const Visit& visit) const {
    Budget budget(text);
    each(text, budget, visit);
  }

  const std::string& pattern() const { return pattern_; }

  struct Instruction {
    enum class Op : std::uint8_t {
      kChar,        // `code`, folded if `folds`
      kSet,         // a character of set `set`
      kAny,         // but a line feed
      kLoop,        // set `set`, `least` to `most` times
      kSplit,       // `next`, then `other`
      kJump,        // to `other`
      kLook,        // `next` to its kAccept matches from here (`behind`: from `least` characters before); go to `other`
      kAtomic,      // `next` to its kAccept, without its alternatives; go to `other`
      kLineBegin,   // ^
      kLineEnd,     // $
      kTextBegin,   // \A
      kTextEnd,     // \z
      kLastLine,    // \Z
      kWordEdge,    // \b
      kNoWordEdge,  // \B
      kAccept,
    };
    enum class Greed : std::uint8_t { kGreedy, kLazy, kPossessive };
    Op op = Op::kAccept;
    Greed greed = Greed::kGreedy;
    bool folds = false, negated = false, behind = false;
    char32_t code = 0;
    std::uint32_t set = 0, least = 0, most = 0, other = 0;
  };

 private:
  friend class RegexCompiler;
  struct State;
  std::optional<std::size_t> run(std::string_view text, std::size_t at, std::uint32_t start, Budget& budget,
                                 std::vector<State>& stack) const;

  std::string pattern_;
  std::vector<Instruction> program_;
  std::vector<CharSet> sets_;
  // The top level's alternatives: where each starts, and the bytes that it can begin with.
  struct Branch {
    std::uint32_t start = 0;
    std::bitset<256> first;
  };
  std::vector<Branch> branches_;
};

template <typename Visit>
void Regex::each(std::string_view text, Budget& budget, const Visit& visit) const {
  std::size_t from = 0, done = 0;
  bool matched = false;  // a match ends at `done`
  while (from <= text.size()) {
    const std::optional<Match> match = find(text, from, budget);
    if (!match) break;
    if (match->begin == match->end && matched && match->begin == done) {
      ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    if (done < match->begin) visit(done, match->begin, false);
    visit(match->begin, match->end, true);
    from = done = match->end;
    matched = true;
  }
  if (done < text.size()) visit(done, text.size(), false);
}

}  // namespace mlx::data::subword
