// Decomposition, canonical order, composition.

#include "data/subword/normal_forms.h"

#include <algorithm>
#include <cstring>

namespace mlx::data::subword {
namespace {

constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

bool is_syllable(char32_t code) {
  return code >= kSyllables && code < kSyllables + kSyllableCount;
}

void append_decomposed(std::vector<Changed>& out, char32_t code, bool compatible) {
  if (is_syllable(code)) {
    const char32_t index = code - kSyllables, tail = index % kTailCount;
    out.push_back({kLeads + index / (kVowelCount * kTailCount), 0});
    out.push_back({kVowels + index / kTailCount % kVowelCount, 1});
    if (tail != 0) out.push_back({kTails + tail, 1});
    return;
  }
  const std::u32string_view parts = decomposition_of(code, compatible);
  if (parts.empty()) return out.push_back({code, 0});
  for (std::size_t i = 0; i < parts.size(); ++i) out.push_back({parts[i], i == 0 ? 0 : 1});
}

// Marks between two characters of class 0, by their classes.
void order_marks(std::vector<Changed>& text) {
  const auto is_mark = [](const Changed& changed) {
    return changed.code >= 0x300 && combining_class(changed.code) != 0;
  };
  for (auto at = text.begin(); at != text.end();) {
    at = std::find_if(at, text.end(), is_mark);
    const auto end = std::find_if_not(at, text.end(), is_mark);
    if (end - at > 1) {
      std::stable_sort(at, end, [](const Changed& a, const Changed& b) {
        return combining_class(a.code) < combining_class(b.code);
      });
    }
    at = end;
  }
}

char32_t composite(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels && second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  if (is_syllable(first) && (first - kSyllables) % kTailCount == 0 && second > kTails && second < kTails + kTailCount)
    return first + (second - kTails);
  return composition_of(first, second);
}

std::vector<Changed> composed(const std::vector<Changed>& text) {
  std::vector<Changed> out;
  out.reserve(text.size());
  std::size_t starter = text.size();  // in `out`; of the text's size: none yet
  int last = 0;                       // class of the character before, 0 right behind the starter
  for (const Changed& changed : text) {
    const int own = changed.code < 0x300 ? 0 : combining_class(changed.code);
    const bool has_starter = starter < out.size();
    const bool next_to = has_starter && starter + 1 == out.size();
    const bool blocked = !has_starter || (!next_to && last >= own);
    const char32_t made = blocked || changed.code < 0x300 ? 0 : composite(out[starter].code, changed.code);
    if (made != 0) {
      out[starter] = {made, out[starter].change + changed.change - 1};
      continue;
    }
    out.push_back(changed);
    if (own == 0) starter = out.size() - 1;
    last = own;
  }
  return out;
}

}  // namespace

bool is_in_form(NormalForm form, std::string_view text) {
  int last = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t eight = 0;
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        at += sizeof eight;
        last = 0;
        continue;
      }
    }
    const Character character = character_at(text, at);
    at += character.bytes;
    const int own = character.code < 0x300 ? 0 : combining_class(character.code);
    if (character.code >= 0x80 && may_change(form, character.code)) return false;
    if (own != 0 && own < last) return false;
    last = own;
  }
  return true;
}

std::vector<Changed> to_form(NormalForm form, std::string_view text) {
  const bool compatible = form == NormalForm::kNfkd || form == NormalForm::kNfkc;
  std::vector<Changed> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    append_decomposed(out, character.code, compatible);
    at += character.bytes;
  }
  order_marks(out);
  return form == NormalForm::kNfc || form == NormalForm::kNfkc ? composed(out) : out;
}

}  // namespace mlx::data::subword
