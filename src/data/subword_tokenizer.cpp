// Errors get the name of the text here; subword/ does not know it.

#include "data/subword_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/subword/sentencepiece.h"
#include "data/subword/tokenizer_json.h"
#include "data/subword/unicode.h"
#include "data/subword/utf8.h"

namespace mlx::data {
namespace {

// Where the last part of a text that may end here begins: `at` is behind `mark`, and before what is no white space;
// 0: there is none in the last `most` bytes.
std::size_t last_end(std::string_view text, char mark, std::size_t most) {
  const std::size_t least = text.size() - std::min(text.size(), most);
  for (std::size_t at = text.rfind(mark); at != std::string_view::npos && at >= least && at > 0;
       at = text.rfind(mark, at - 1)) {
    if (at + 1 + 4 > text.size()) continue;  // the next character may not be whole
    const bool word_follows = !subword::is_white_space(subword::character_at(text, at + 1).code);
    const bool blank_before = static_cast<unsigned char>(text[at - 1]) <= ' ' && mark == ' ';
    if (word_follows && !blank_before) return mark == ' ' ? at : at + 1;
  }
  return 0;
}

subword::Pipeline read_pipeline(std::string_view file, const std::string& what) {
  if (subword::may_be_sentencepiece(file)) return subword::read_sentencepiece(file, what);
  return subword::read_tokenizer_json(file, what);
}

}  // namespace

Tokenizer::Subword::Subword(std::string file, const std::string& what)
    : file_(std::move(file)), pipeline_(read_pipeline(file_, what)) {}

subword::Tokens Tokenizer::Subword::run(std::string_view text, std::string_view what,
                                        const subword::EncodeOptions& options) const {
  std::unique_ptr<subword::Scratch> scratch;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      scratch = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!scratch) scratch = std::make_unique<subword::Scratch>();
  subword::Tokens out;
  try {
    pipeline_.encode(text, options, *scratch, out);
  } catch (const Error& error) {
    throw Error(error.kind, fmt::format("{}: {}", what, error.message), error.hint);
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
  return out;
}

std::vector<std::int32_t> Tokenizer::Subword::encode(std::string_view text, std::string_view what, bool begins) const {
  return run(text, what, {.begins = begins}).ids;
}

PlacedTokens Tokenizer::Subword::encode_placed(std::string_view text, std::string_view what, bool special) const {
  subword::Tokens tokens = run(text, what, {.special = special, .spans = true});
  PlacedTokens out{std::move(tokens.ids), {}};
  for (const subword::Span& span : tokens.spans) out.places.emplace_back(span.begin, span.end);
  return out;
}

std::string Tokenizer::Subword::decode(std::span<const std::int32_t> tokens, bool skip_special) const {
  return pipeline_.decode(tokens, skip_special);
}

std::size_t unfinished_words(std::string_view text) {
  constexpr std::size_t kLongestLine = 256 << 10, kLongestWord = 64 << 10;
  std::size_t end = last_end(text, '\n', kLongestLine);
  if (end == 0) end = last_end(text, ' ', kLongestWord);
  if (end > 0) return text.size() - end;
  // One word of more than that: it is cut before a character.
  std::size_t back = 0;
  while (back < std::min<std::size_t>(3, text.size()) &&
         (static_cast<unsigned char>(text[text.size() - 1 - back]) & 0xC0) == 0x80)
    ++back;
  return std::min(back + 1, text.size());
}

}  // namespace mlx::data
