// Look-ups in the tables.

#include "data/subword/unicode.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

struct Decomposition {
  std::uint32_t code;
  std::uint16_t at, length;  // in the pool
};
struct Composition {
  std::uint32_t first, second, composite;
};
struct Mapping {
  std::uint32_t from, to;
};

#include "data/subword/unicode_tables.inc"

constexpr unsigned kBlockBits = 7;

template <typename Index, typename Value>
Value look_up(const Index* index, const Value* blocks, char32_t code) {
  if (code >= kCodePoints) code = 0x10FFFF;  // unassigned
  return blocks[(std::size_t{index[code >> kBlockBits]} << kBlockBits) + (code & ((1U << kBlockBits) - 1))];
}

std::uint8_t property_of(char32_t code) {
  return look_up(kPropertyIndex, kPropertyBlocks, code);
}

template <std::size_t Count>
char32_t mapped(const Mapping (&table)[Count], char32_t code) {
  const Mapping* found = std::ranges::lower_bound(table, static_cast<std::uint32_t>(code), {}, &Mapping::from);
  return found != std::end(table) && found->from == code ? static_cast<char32_t>(found->to) : code;
}

template <std::size_t Count>
const Decomposition* found_in(const Decomposition (&table)[Count], char32_t code) {
  const Decomposition* found =
      std::ranges::lower_bound(table, static_cast<std::uint32_t>(code), {}, &Decomposition::code);
  return found != std::end(table) && found->code == code ? found : nullptr;
}

// As names of properties are compared: without case, blanks, '-' and '_'.
std::string loose(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '-' && c != '_') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  return out;
}

struct NamedSet {
  const char *brief, *full;
  CategorySet set;
};
constexpr CategorySet all_of(Category first, Category last) {
  return set_of(first, last);
}
constexpr NamedSet kNamedSets[] = {
    {"c", "other", all_of(Category::kCn, Category::kCo)},
    {"cn", "unassigned", set_of(Category::kCn)},
    {"cc", "control", set_of(Category::kCc)},
    {"cf", "format", set_of(Category::kCf)},
    {"cs", "surrogate", set_of(Category::kCs)},
    {"co", "privateuse", set_of(Category::kCo)},
    {"l", "letter", kLetters},
    {"lc", "casedletter", all_of(Category::kLu, Category::kLt)},
    {"lu", "uppercaseletter", set_of(Category::kLu)},
    {"ll", "lowercaseletter", set_of(Category::kLl)},
    {"lt", "titlecaseletter", set_of(Category::kLt)},
    {"lm", "modifierletter", set_of(Category::kLm)},
    {"lo", "otherletter", set_of(Category::kLo)},
    {"m", "mark", kMarks},
    {"mn", "nonspacingmark", set_of(Category::kMn)},
    {"mc", "spacingmark", set_of(Category::kMc)},
    {"me", "enclosingmark", set_of(Category::kMe)},
    {"n", "number", kNumbers},
    {"nd", "decimalnumber", set_of(Category::kNd)},
    {"nl", "letternumber", set_of(Category::kNl)},
    {"no", "othernumber", set_of(Category::kNo)},
    {"p", "punctuation", kPunctuation},
    {"pc", "connectorpunctuation", set_of(Category::kPc)},
    {"pd", "dashpunctuation", set_of(Category::kPd)},
    {"ps", "openpunctuation", set_of(Category::kPs)},
    {"pe", "closepunctuation", set_of(Category::kPe)},
    {"pi", "initialpunctuation", set_of(Category::kPi)},
    {"pf", "finalpunctuation", set_of(Category::kPf)},
    {"po", "otherpunctuation", set_of(Category::kPo)},
    {"s", "symbol", all_of(Category::kSm, Category::kSo)},
    {"sm", "mathsymbol", set_of(Category::kSm)},
    {"sc", "currencysymbol", set_of(Category::kSc)},
    {"sk", "modifiersymbol", set_of(Category::kSk)},
    {"so", "othersymbol", set_of(Category::kSo)},
    {"z", "separator", all_of(Category::kZs, Category::kZp)},
    {"zs", "spaceseparator", set_of(Category::kZs)},
    {"zl", "lineseparator", set_of(Category::kZl)},
    {"zp", "paragraphseparator", set_of(Category::kZp)},
    {"any", "any", ~CategorySet{0}},
};

}  // namespace

Category category_of(char32_t code) {
  return static_cast<Category>(property_of(code) & 31);
}

std::optional<CategorySet> category_named(std::string_view name) {
  const std::string wanted = loose(name);
  for (const NamedSet& named : kNamedSets)
    if (wanted == named.brief || wanted == named.full) return named.set;
  return std::nullopt;
}

bool is_white_space(char32_t code) {
  return (property_of(code) & 32) != 0;
}

bool is_alphabetic(char32_t code) {
  return (property_of(code) & 64) != 0;
}

bool is_word(char32_t code) {
  return is_alphabetic(code) || is_in(kMarks | set_of(Category::kNd) | set_of(Category::kPc), code);
}

std::optional<std::uint8_t> script_named(std::string_view name) {
  const std::string wanted = loose(name);
  for (std::size_t i = 0; i < std::size(kScriptNames); ++i)
    if (wanted == loose(kScriptNames[i])) return static_cast<std::uint8_t>(i);
  return std::nullopt;
}

std::uint8_t script_of(char32_t code) {
  return look_up(kScriptIndex, kScriptBlocks, code);
}

int combining_class(char32_t code) {
  return look_up(kCombiningIndex, kCombiningBlocks, code);
}

bool may_change(NormalForm form, char32_t code) {
  return (look_up(kFormIndex, kFormBlocks, code) >> (4 + static_cast<int>(form)) & 1) != 0;
}

std::u32string_view decomposition_of(char32_t code, bool compatible) {
  if (code < 0xA0) return {};
  const Decomposition* found = compatible ? found_in(kCompatible, code) : nullptr;
  if (found == nullptr) found = found_in(kCanonical, code);
  if (found == nullptr) return {};
  return {kDecompositionPool + found->at, found->length};
}

char32_t composition_of(char32_t first, char32_t second) {
  const auto key = [](const Composition& pair) { return std::uint64_t{pair.first} << 32 | pair.second; };
  const std::uint64_t wanted = std::uint64_t{first} << 32 | second;
  const Composition* found = std::ranges::lower_bound(kCompositions, wanted, {}, key);
  return found != std::end(kCompositions) && key(*found) == wanted ? static_cast<char32_t>(found->composite) : 0;
}

char32_t lower_of(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
  return mapped(kLower, code);
}

char32_t folded_of(char32_t code) {
  if (code < 0x80) return lower_of(code);
  const char32_t folded = mapped(kFolded, code);
  return folded != code ? folded : mapped(kLower, code);
}

GraphemeBreak grapheme_break_of(char32_t code) {
  return static_cast<GraphemeBreak>(look_up(kFormIndex, kFormBlocks, code) & 15);
}

}  // namespace mlx::data::subword
