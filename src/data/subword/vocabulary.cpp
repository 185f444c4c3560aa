// Reads models.

#include "data/subword/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/bpe.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/byte_tokens.h"
#include "data/subword/json_keys.h"
#include "data/subword/unigram.h"
#include "data/subword/word_piece.h"

namespace mlx::data::subword {
namespace {

// Every piece that a text begins with is looked at.
constexpr std::size_t kLongestUnigramPiece = 512;

// Numbers of tokens may have gaps, but not so that a small file makes a large table.
std::size_t most_numbers(std::size_t tokens) {
  return std::min<std::size_t>(kMostTokens, 2 * tokens + (1 << 16));
}

Vocabulary read_names(const Document& document, const std::string& what) {
  if (!document.has_vocabulary) fail(ErrorKind::kCorrupt, "{}: 'vocab': expected an object", what);
  const std::size_t most = most_numbers(document.vocabulary.size());
  Vocabulary out;
  out.tokens.reserve(document.vocabulary.size());
  for (const auto& [name, id] : document.vocabulary) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= most)
      fail(ErrorKind::kCorrupt, "{}: 'vocab': the number of '{}' is not from 0 to {}", what, name.substr(0, 40),
           most - 1);
    const auto at = static_cast<std::size_t>(id);
    if (out.names.size() <= at) out.names.resize(at + 1);
    out.names[at] = name;
    out.tokens.set(name, static_cast<std::int32_t>(id));
  }
  if (out.names.empty()) fail(ErrorKind::kCorrupt, "{}: 'vocab' is empty", what);
  return out;
}

std::array<std::int32_t, 256> byte_tokens_of(const Vocabulary& vocabulary) {
  std::array<std::int32_t, 256> out{};
  for (std::size_t byte = 0; byte < out.size(); ++byte)
    out[byte] = vocabulary.tokens.find(byte_name(static_cast<unsigned char>(byte)));
  return out;
}

// The two names of a merge: "a b", or ["a", "b"].
std::pair<std::string, std::string> names_of_merge(const Json& merge, const std::string& what, std::size_t number) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const std::string text = merge.get<std::string>();
    const std::size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos)
      return {text.substr(0, blank), text.substr(blank + 1)};
  }
  fail(ErrorKind::kCorrupt, "{}: 'merges': #{} is not two tokens", what, number);
}

MergeTable read_merges(const Json& json, const Vocabulary& vocabulary, const std::string& prefix,
                       const std::string& what) {
  const Json& merges = json_array(json, "merges", what);
  MergeTable out;
  out.reserve(merges.size());
  std::uint32_t rank = 0;
  const auto token_of = [&](const std::string& name) {
    const std::int32_t token = vocabulary.tokens.find(name);
    if (token < 0)
      fail(ErrorKind::kCorrupt, "{}: 'merges': #{} needs the token '{}', which 'vocab' has not", what, rank + 1,
           name.substr(0, 40));
    return token;
  };
  for (const Json& merge : merges) {
    const auto [left, right] = names_of_merge(merge, what, rank + 1);
    const std::int32_t a = token_of(left), b = token_of(right);
    out.set(a, b, rank, token_of(left + right.substr(std::min(prefix.size(), right.size()))));
    ++rank;
  }
  return out;
}

// Whether words may be merged apart from one another.
bool plain_marks(const Vocabulary& vocabulary, const BpeSpec& spec) {
  const bool simple = spec.prefix.empty() && spec.suffix.empty() && !spec.whole_words;
  return simple && vocabulary.tokens.find("\xE2\x96\x81") >= 0 && std::ranges::none_of(vocabulary.names, marks_inside);
}

NamedModel read_bpe(const Document& document, const Json& json, bool bytes, const std::string& what) {
  NamedModel out{"bpe", read_names(document, what), nullptr};
  const Vocabulary& vocabulary = out.vocabulary;
  if (has_key(json, "dropout") && json_number(json, "dropout", what) != 0)
    fail(ErrorKind::kUsage, "{}: 'dropout' makes tokens by chance, which is not supported", what);
  BpeSpec spec;
  spec.bytes = bytes;
  const auto as_bytes = [bytes](const std::string& name) {
    return bytes ? from_byte_characters(name).value_or(name) : name;
  };
  const std::string prefix = text_or(json, "continuing_subword_prefix", "", what);
  MergeTable merges = read_merges(json, vocabulary, prefix, what);
  spec.prefix = as_bytes(prefix);
  spec.suffix = as_bytes(text_or(json, "end_of_word_suffix", "", what));
  spec.unknown_name = text_or(json, "unk_token", "", what);
  if (!spec.unknown_name.empty()) spec.unknown = vocabulary.tokens.find(spec.unknown_name);
  spec.fuse_unknown = flag(json, "fuse_unk", false, what);
  spec.byte_fallback = out.byte_fallback = flag(json, "byte_fallback", false, what);
  spec.whole_words = flag(json, "ignore_merges", false, what);
  spec.byte_tokens = byte_tokens_of(vocabulary);
  spec.word_mark = !bytes && plain_marks(vocabulary, spec);
  if (!bytes) {
    out.model = std::make_unique<Bpe>(std::move(spec), vocabulary.tokens, std::move(merges));
    return out;
  }
  StringTable strings;
  strings.reserve(vocabulary.names.size());
  for (std::size_t id = 0; id < vocabulary.names.size(); ++id)
    if (const auto text = from_byte_characters(vocabulary.names[id]); text && !text->empty())
      strings.set(*text, static_cast<std::int32_t>(id));
  out.model = std::make_unique<Bpe>(std::move(spec), std::move(strings), std::move(merges));
  return out;
}

NamedModel read_unigram(const Json& json, const std::string& what) {
  NamedModel out{"unigram", {}, nullptr};
  const Json& list = json_array(json, "vocab", what);
  if (list.empty()) fail(ErrorKind::kCorrupt, "{}: 'vocab' is empty", what);
  if (list.size() > static_cast<std::size_t>(kMostTokens))
    fail(ErrorKind::kCorrupt, "{}: 'vocab' has {} tokens", what, list.size());
  UnigramSpec spec;
  double least = std::numeric_limits<double>::infinity();
  for (const Json& pair : list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number())
      fail(ErrorKind::kCorrupt, "{}: 'vocab': #{} is not a token and its score", what, spec.scores.size() + 1);
    if (pair[0].get_ref<const std::string&>().size() > kLongestUnigramPiece)
      fail(ErrorKind::kCorrupt, "{}: 'vocab': #{} has more than {} bytes", what, spec.scores.size() + 1,
           kLongestUnigramPiece);
    const auto id = static_cast<std::int32_t>(spec.scores.size());
    out.vocabulary.names.push_back(pair[0].get<std::string>());
    out.vocabulary.tokens.set(out.vocabulary.names.back(), id);
    spec.pieces.set(out.vocabulary.names.back(), id);
    spec.scores.push_back(pair[1].get<double>());
    least = std::min(least, spec.scores.back());
  }
  if (const std::int64_t unknown = number_or(json, "unk_id", -1, what); unknown >= 0) {
    if (static_cast<std::uint64_t>(unknown) >= list.size())
      fail(ErrorKind::kCorrupt, "{}: 'unk_id' is {}", what, unknown);
    spec.unknown = static_cast<std::int32_t>(unknown);
  }
  constexpr double kUnknownPenalty = 10;
  spec.unknown_score = least - kUnknownPenalty;
  spec.byte_fallback = out.byte_fallback = flag(json, "byte_fallback", false, what);
  spec.byte_tokens = byte_tokens_of(out.vocabulary);
  out.model = std::make_unique<Unigram>(std::move(spec));
  return out;
}

NamedModel read_word_piece(const Document& document, const Json& json, bool whole_words, const std::string& what) {
  NamedModel out{whole_words ? "wordlevel" : "wordpiece", read_names(document, what), nullptr};
  const std::string prefix = text_or(json, "continuing_subword_prefix", "##", what);
  WordPieceSpec spec;
  spec.whole_words = whole_words;
  spec.unknown = out.vocabulary.tokens.find(text_or(json, "unk_token", whole_words ? "<unk>" : "[UNK]", what));
  spec.most_characters = static_cast<std::size_t>(
      std::clamp<std::int64_t>(number_or(json, "max_input_chars_per_word", 100, what), 0, 10000));
  for (std::size_t id = 0; id < out.vocabulary.names.size(); ++id) {
    const std::string& name = out.vocabulary.names[id];
    if (name.empty()) continue;
    if (name.starts_with(prefix))
      spec.later.set(std::string_view(name).substr(prefix.size()), static_cast<std::int32_t>(id));
  }
  spec.first = out.vocabulary.tokens;
  out.model = std::make_unique<WordPiece>(std::move(spec));
  return out;
}

// Old files do not say it.
std::string kind_of_model(const Json& json, const std::string& what) {
  if (has_key(json, "type")) return json_string(json, "type", what);
  if (has_key(json, "merges")) return "BPE";
  if (has_key(json, "vocab") && json["vocab"].is_array()) return "Unigram";
  return has_key(json, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

}  // namespace

NamedModel read_model(const Document& document, bool bytes, const std::string& where) {
  const Json& json = json_object(document.rest, "model", where);
  const std::string type = kind_of_model(json, where), what = where + ": " + type;
  if (type == "BPE") return read_bpe(document, json, bytes, what);
  if (bytes) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: a model behind ByteLevel that is no BPE is not supported", what),
                "`mlx help tokenizer` lists what is");
  }
  if (type == "Unigram") return read_unigram(json, what);
  if (type == "WordPiece" || type == "WordLevel") return read_word_piece(document, json, type == "WordLevel", what);
  refuse_kind("model", type, where);
}

}  // namespace mlx::data::subword
