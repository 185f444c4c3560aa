// Properties and mappings of code points, from the Unicode Character Database; unicode_tables.inc says which version.
// Tables are constant data of the program: nothing is built when it starts. Used by all of subword/.
//
// Every function takes any 32-bit number; above the code points it has the properties of an unassigned one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace mlx::data::subword {

enum class Category : std::uint8_t {
  kCn,
  kCc,
  kCf,
  kCs,
  kCo,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,  // clang-format off
  kPc, kPd, kPs, kPe, kPi, kPf, kPo, kSm, kSc, kSk, kSo, kZs, kZl, kZp, kCount,  // clang-format on
};
using CategorySet = std::uint32_t;  // bit i: category i
constexpr CategorySet set_of(Category category) {
  return CategorySet{1} << static_cast<int>(category);
}
constexpr CategorySet set_of(Category first, Category last) {
  return (set_of(last) << 1) - set_of(first);
}
constexpr CategorySet kLetters = set_of(Category::kLu, Category::kLo);
constexpr CategorySet kMarks = set_of(Category::kMn, Category::kMe);
constexpr CategorySet kNumbers = set_of(Category::kNd, Category::kNo);
constexpr CategorySet kPunctuation = set_of(Category::kPc, Category::kPo);

Category category_of(char32_t code);
inline bool is_in(CategorySet set, char32_t code) {
  return (set & set_of(category_of(code))) != 0;
}
// "Lu", "L", "letter", "Uppercase_Letter" and the like, whatever the case; nullopt: no such set.
std::optional<CategorySet> category_named(std::string_view name);

bool is_white_space(char32_t code);
bool is_alphabetic(char32_t code);
bool is_word(char32_t code);  // \w: alphabetic, mark, decimal digit, connector
// The number of a script ("Han"), whatever the case; nullopt: no such script.
std::optional<std::uint8_t> script_named(std::string_view name);
std::uint8_t script_of(char32_t code);

int combining_class(char32_t code);
enum class NormalForm : std::uint8_t { kNfd, kNfkd, kNfc, kNfkc };
// True if the character alone, or with its neighbours, may change in this form.
bool may_change(NormalForm form, char32_t code);
// The whole decomposition, without Hangul syllables; empty: the character itself.
std::u32string_view decomposition_of(char32_t code, bool compatible);
// The primary composite of two characters, without Hangul; 0: none.
char32_t composition_of(char32_t first, char32_t second);

char32_t lower_of(char32_t code);   // simple mapping
char32_t folded_of(char32_t code);  // simple case folding

enum class GraphemeBreak : std::uint8_t {
  kOther,
  kCr,
  kLf,
  kControl,
  kExtend,
  kZwj,
  kRegional,
  kPrepend,
  kSpacing,
  kL,
  kV,
  kT,
  kLv,
  kLvt,
  kPicture,
};
GraphemeBreak grapheme_break_of(char32_t code);

}  // namespace mlx::data::subword
