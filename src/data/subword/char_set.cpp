// Membership. Case is ignored by simple folding.

#include "data/subword/char_set.h"

#include <algorithm>

namespace mlx::data::subword {

void CharSet::finish() {
  for (CharSet& part : parts_) part.finish();
  for (CharSet& limit : limits_) limit.finish();
  ascii_[0] = ascii_[1] = 0;
  for (char32_t code = 0; code < 128; ++code)
    if (find(code)) ascii_[code >> 6] |= std::uint64_t{1} << (code & 63);
}

bool CharSet::find(char32_t code) const {
  if (find_exact(code) != negated_) return true;
  if (!ignores_case_) return false;
  const char32_t folded = folded_of(code);
  const char32_t upper = folded >= 'a' && folded <= 'z' ? folded - ('a' - 'A') : folded;
  return find_exact(folded) != negated_ || find_exact(upper) != negated_;
}

bool CharSet::find_exact(char32_t code) const {
  const auto in_range = [code](const Range& range) { return code >= range.first && code <= range.last; };
  const auto in_script = [code](const Script& script) { return (script_of(code) == script.script) != script.negated; };
  const auto in_set = [code](const CharSet& set) { return set.has(code); };
  const bool named = is_in(categories_, code) || (white_space_ && is_white_space(code)) ||
                     (not_white_space_ && !is_white_space(code)) || (word_ && is_word(code)) ||
                     (not_word_ && !is_word(code));
  return (named || std::ranges::any_of(ranges_, in_range) || std::ranges::any_of(scripts_, in_script) ||
          std::ranges::any_of(parts_, in_set)) &&
         std::ranges::all_of(limits_, in_set);
}

}  // namespace mlx::data::subword
