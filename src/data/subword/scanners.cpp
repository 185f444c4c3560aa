// One pass over the classes of characters.

#include "data/subword/scanners.h"

#include <algorithm>
#include <array>

#include "data/subword/unicode.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

enum class WordClass : std::uint8_t { kOther, kLetter, kNumber, kSpace, kLineEnd };  // a line end is white space too

constexpr std::array<WordClass, 128> made_classes() {
  std::array<WordClass, 128> out{};
  for (unsigned c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    out[c] = letter                            ? WordClass::kLetter
             : c >= '0' && c <= '9'            ? WordClass::kNumber
             : c == '\n' || c == '\r'          ? WordClass::kLineEnd
             : c == ' ' || (c >= 9 && c <= 13) ? WordClass::kSpace
                                               : WordClass::kOther;
  }
  return out;
}
constexpr std::array<WordClass, 128> kClasses = made_classes();

struct Classed {
  WordClass kind = WordClass::kOther;
  std::uint32_t bytes = 0;
};

Classed class_of_multibyte(const char* at, const char* end) {
  const Character character = multibyte_character(at, end);
  const CategorySet category = set_of(category_of(character.code));
  const WordClass kind = (category & kLetters) != 0       ? WordClass::kLetter
                         : (category & kNumbers) != 0     ? WordClass::kNumber
                         : is_white_space(character.code) ? WordClass::kSpace
                                                          : WordClass::kOther;
  return {kind, character.bytes};
}

// Zero bytes at the end.
inline Classed class_at(const char* at, const char* end) {
  if (at == end) return {};
  const auto byte = static_cast<unsigned char>(*at);
  if (byte < 128) return {kClasses[byte], 1};
  return class_of_multibyte(at, end);
}

// Behind the characters of one class from `at` on.
inline const char* run_of(WordClass kind, const char* at, const char* end) {
  for (;;) {
    while (at != end && static_cast<unsigned char>(*at) < 128) {
      if (kClasses[static_cast<unsigned char>(*at)] != kind) return at;
      ++at;
    }
    if (at == end) return at;
    const Classed next = class_of_multibyte(at, end);
    if (next.kind != kind) return at;
    at += next.bytes;
  }
}

// The length of 's, 't, 're, 've, 'm, 'll or 'd at `at`; 0: there is none.
std::size_t contraction_at(const char* at, const char* end, bool any_case) {
  const auto letter = [&](std::ptrdiff_t i) {
    const char c = end - at > i ? at[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  const bool long_s = any_case && end - at > 2 && at[1] == '\xC5' && at[2] == '\xBF';  // U+017F folds to s
  return long_s ? 3 : 0;
}

// \s+(?!\S)|\s+ : all white space up to `at`'s run's end, but the last character if a word follows.
const char* spaces_from(const char* at, const char* run_end, const char* end) {
  if (run_end == end) return run_end;
  const char* const last = run_end - character_before(at, run_end).bytes;
  return last > at ? last : run_end;
}

const char* white_space_run(const char* at, const char* end, const char*& behind_line_end) {
  for (;;) {
    const Classed next = class_at(at, end);
    if (next.bytes == 0 || (next.kind != WordClass::kSpace && next.kind != WordClass::kLineEnd)) return at;
    at += next.bytes;
    if (next.kind == WordClass::kLineEnd) behind_line_end = at;
  }
}

const char* gpt2_word(const char* at, const char* end) {
  if (*at == '\'')
    if (const std::size_t length = contraction_at(at, end, false); length > 0) return at + length;
  const char* const word = *at == ' ' ? at + 1 : at;
  const Classed first = class_at(word, end);
  const bool white = first.kind == WordClass::kSpace || first.kind == WordClass::kLineEnd;
  if (first.bytes > 0 && !white) return run_of(first.kind, word + first.bytes, end);
  const char* ignored = nullptr;
  return spaces_from(at, white_space_run(at, end, ignored), end);
}

const char* digits_from(const char* at, const char* end, unsigned most) {
  for (unsigned i = 0; i < most; ++i) {
    const Classed next = class_at(at, end);
    if (next.bytes == 0 || next.kind != WordClass::kNumber) break;
    at += next.bytes;
  }
  return at;
}

const char* cl100k_word(const char* at, const char* end, unsigned most_digits) {
  if (*at == '\'')
    if (const std::size_t length = contraction_at(at, end, true); length > 0) return at + length;
  const Classed first = class_at(at, end);
  if (first.kind == WordClass::kLetter) return run_of(first.kind, at + first.bytes, end);
  if (first.kind == WordClass::kNumber) return digits_from(at, end, most_digits);
  const Classed second = class_at(at + first.bytes, end);
  if (first.kind != WordClass::kLineEnd && second.bytes > 0 && second.kind == WordClass::kLetter)
    return run_of(second.kind, at + first.bytes + second.bytes, end);
  const bool blank_before = *at == ' ' && second.bytes > 0 && second.kind == WordClass::kOther;
  if (first.kind == WordClass::kOther || blank_before)
    return run_of(WordClass::kLineEnd, run_of(WordClass::kOther, at + first.bytes, end), end);
  const char* behind_line_end = nullptr;
  const char* const run_end = white_space_run(at, end, behind_line_end);
  return behind_line_end != nullptr ? behind_line_end : spaces_from(at, run_end, end);
}

}  // namespace

const char* const kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::optional<ScannedPattern> scanned_pattern(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return ScannedPattern{.gpt2 = true};
  constexpr std::string_view kBefore = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
  constexpr std::string_view kBehind = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (!pattern.starts_with(kBefore) || !pattern.ends_with(kBehind)) return std::nullopt;
  const std::string_view digits = pattern.substr(kBefore.size(), pattern.size() - kBefore.size() - kBehind.size());
  if (digits.empty()) return ScannedPattern{.most_digits = 1};
  if (digits == "{1,3}") return ScannedPattern{.most_digits = 3};
  return std::nullopt;
}

void scan_words(const ScannedPattern& pattern, std::string_view text, const Piece& piece, std::vector<Piece>& out) {
  const char *at = text.data() + piece.begin, *const end = text.data() + piece.end;
  while (at != end) {
    const char* const word_end = pattern.gpt2 ? gpt2_word(at, end) : cl100k_word(at, end, pattern.most_digits);
    out.push_back(
        {static_cast<std::uint32_t>(at - text.data()), static_cast<std::uint32_t>(word_end - text.data()), -1});
    at = word_end;
  }
}

}  // namespace mlx::data::subword
