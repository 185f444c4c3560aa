// Two kinds: SentencePiece's BPE, whose scores become merges, and byte-level BPE with a regular expression by name.

#include "nn/gguf_tokenizer.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/utf8.h"
#include "nn/gguf_keys.h"
#include "nn/letters_tokenizer.h"

namespace mlx::nn {
namespace {

struct Vocabulary {
  std::vector<std::string_view> names;
  std::vector<std::int64_t> types;  // of each, or none at all
  std::int64_t type(std::size_t id) const { return types.empty() ? std::int64_t{kNormalToken} : types[id]; }
};

Vocabulary vocabulary_of(const GgufKeys& keys) {
  constexpr std::size_t kMostTokens = std::size_t{1} << 24;
  Vocabulary out{keys.strings("tokens"), keys.integers("token_type")};
  if (out.names.empty() || out.names.size() > kMostTokens)
    keys.corrupt("tokens", "at least one token, and not millions");
  if (!out.types.empty() && out.types.size() != out.names.size()) keys.corrupt("token_type", "a number for each token");
  return out;
}

// The members are appended: an ordered object looks for an equal name among all that it has.
Json names_to_json(const Vocabulary& vocabulary, const GgufKeys& keys) {
  Json::object_t out;
  out.reserve(vocabulary.names.size());
  std::unordered_set<std::string_view> known(vocabulary.names.size());
  for (std::size_t id = 0; id < vocabulary.names.size(); ++id) {
    const std::string_view name = vocabulary.names[id];
    if (!known.insert(name).second)
      fail(ErrorKind::kCorrupt, "{}: the token '{}' is there twice", keys.what(),
           printable(std::string(name.substr(0, 40))));
    static_cast<Json::object_t::Container&>(out).emplace_back(name, id);
  }
  return out;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json out = Json::array();
  for (std::size_t id = 0; id < vocabulary.names.size(); ++id) {
    const std::int64_t type = vocabulary.type(id);
    if ((type != kUnknownToken && type != kControlToken && type != kUserToken) || vocabulary.names[id].empty())
      continue;
    out.push_back({{"id", id},
                   {"content", vocabulary.names[id]},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", type != kUserToken}});
  }
  return out;
}

// The token that stands before or behind a text, if one does.
struct Around {
  const char *flag, *key;
  bool by_default;
};
void add_around(const GgufKeys& keys, const Vocabulary& vocabulary, const Around& around, Json& single, Json& special) {
  const bool wanted = keys.boolean(around.flag).value_or(around.by_default);
  const auto id = keys.integer(around.key, 0, static_cast<std::int64_t>(vocabulary.names.size()) - 1);
  if (!wanted || !id) return;
  const std::string_view name = vocabulary.names[static_cast<std::size_t>(*id)];
  single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
  special[std::string(name)] = {{"id", name}, {"ids", {*id}}, {"tokens", {name}}};
}

Json template_of(const GgufKeys& keys, const Vocabulary& vocabulary, bool begins) {
  Json single = Json::array(), special = Json::object();
  add_around(keys, vocabulary, {"add_bos_token", "bos_token_id", begins}, single, special);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add_around(keys, vocabulary, {"add_eos_token", "eos_token_id", false}, single, special);
  const Json pair = {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}};
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

// Every cut of a token into two tokens is a merge; those that make the token with the highest score come first.
Json merges_of_scores(const GgufKeys& keys, const Vocabulary& vocabulary) {
  const std::vector<double> scores = keys.numbers("scores");
  if (scores.size() != vocabulary.names.size()) keys.corrupt("scores", "a number for each token");
  constexpr std::size_t kLongest = 256;
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < vocabulary.names.size(); ++id)
    if (vocabulary.type(id) == kNormalToken) ids.emplace(vocabulary.names[id], id);
  struct Merge {
    std::size_t made, left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [name, id] : ids) {
    if (name.size() > kLongest) keys.corrupt("tokens", "tokens of at most 256 bytes");
    for (std::size_t at = 1; at < name.size(); ++at) {
      const auto left = ids.find(name.substr(0, at)), right = ids.find(name.substr(at));
      if (left != ids.end() && right != ids.end()) merges.push_back({id, left->second, right->second});
    }
  }
  std::ranges::sort(merges, [&](const Merge& a, const Merge& b) {
    if (scores[a.made] != scores[b.made]) return scores[a.made] > scores[b.made];
    return std::tie(a.made, a.left, a.right) < std::tie(b.made, b.left, b.right);
  });
  Json out = Json::array();
  for (const Merge& merge : merges) out.push_back({vocabulary.names[merge.left], vocabulary.names[merge.right]});
  return out;
}

Json sentencepiece(const GgufKeys& keys) {
  constexpr const char* kMark = "\xE2\x96\x81";
  const Vocabulary vocabulary = vocabulary_of(keys);
  const bool prefix = keys.boolean("add_space_prefix").value_or(true);
  if (keys.boolean("remove_extra_whitespaces").value_or(false) || keys.has("precompiled_charsmap"))
    keys.unsupported("a SentencePiece tokenizer that normalises its text", "those that leave it as it is");
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  Json normalizers = Json::array(), decoders = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  normalizers.push_back(replace);
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"vocab", names_to_json(vocabulary, keys)},
                {"merges", merges_of_scores(keys, vocabulary)}};
  const auto unknown = keys.integer("unknown_token_id", 0, static_cast<std::int64_t>(vocabulary.names.size()) - 1);
  model["unk_token"] = unknown ? Json(vocabulary.names[static_cast<std::size_t>(*unknown)]) : Json(nullptr);
  return {{"version", "1.0"},
          {"added_tokens", added_tokens(vocabulary)},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", template_of(keys, vocabulary, true)},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
          {"model", model}};
}

constexpr const char* kPatternLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kPatternQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr GgufCutting kCuttings[] = {
    {"gpt-2", nullptr, false, false, false},       {"llama-bpe", kPatternLlama3, false, true, true},
    {"llama3", kPatternLlama3, false, true, true}, {"llama-v3", kPatternLlama3, false, true, true},
    {"dbrx", kPatternLlama3, false, false, false}, {"smaug-bpe", kPatternLlama3, false, false, false},
    {"qwen2", kPatternQwen2, true, false, false}};

const GgufCutting& cutting_of(const GgufKeys& keys) {
  const std::optional<std::string> name = keys.string("pre");
  if (!name) fail(ErrorKind::kCorrupt, "{}: the key 'tokenizer.ggml.pre' is missing", keys.what());
  std::string known;
  for (const GgufCutting& cutting : kCuttings) {
    if (*name == cutting.name) return cutting;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", cutting.name);
  }
  keys.unsupported(fmt::format("the tokenizer's way to cut words '{}'", *name), known);
}

// The characters that the tokens are, if each is one and they are put together of bytes that are no tokens. Only
// llama.cpp merges what is no token.
std::vector<std::string> characters_of(const Vocabulary& vocabulary, const GgufKeys& keys) {
  const std::unordered_set<std::string_view> known(vocabulary.names.begin(), vocabulary.names.end());
  const std::vector<std::string_view> merges = keys.strings("merges");
  const auto is_of_bytes = [&](std::string_view merge) {
    const std::size_t blank = merge.find(' ');
    return blank != std::string_view::npos && !known.contains(merge.substr(blank + 1));
  };
  std::vector<std::string> out;
  if (merges.empty() || !std::ranges::all_of(merges, is_of_bytes)) return out;
  for (const std::string_view name : vocabulary.names) {
    const std::optional<std::string> piece = data::subword::from_byte_characters(name);
    if (!piece || piece->empty()) return {};
    const data::subword::Character character = data::subword::character_at(*piece, 0);
    if (character.code >= data::subword::kCodePoints || character.bytes != piece->size()) return {};
    out.push_back(*piece);
  }
  return out;
}

Json byte_level(const GgufKeys& keys) {
  const Vocabulary vocabulary = vocabulary_of(keys);
  if (const std::vector<std::string> letters = characters_of(vocabulary, keys); !letters.empty())
    return letters_tokenizer(letters, false);
  const GgufCutting& cutting = cutting_of(keys);
  Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  if (keys.boolean("add_space_prefix").value_or(false)) bytes["add_prefix_space"] = true;
  Json words = bytes;
  if (cutting.pattern) {
    words["use_regex"] = false;
    const Json split = {
        {"type", "Split"}, {"pattern", {{"Regex", cutting.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    words = {{"type", "Sequence"}, {"pretokenizers", {split, words}}};
  }
  Json merges = Json::array();
  for (const std::string_view merge : keys.strings("merges")) merges.push_back(merge);
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"ignore_merges", cutting.whole_words},
                      {"vocab", names_to_json(vocabulary, keys)},
                      {"merges", merges}};
  return {{"version", "1.0"},
          {"added_tokens", added_tokens(vocabulary)},
          {"normalizer", cutting.composes ? Json{{"type", "NFC"}} : Json(nullptr)},
          {"pre_tokenizer", words},
          {"post_processor", template_of(keys, vocabulary, cutting.begins)},
          {"decoder", bytes},
          {"model", model}};
}

}  // namespace

std::span<const GgufCutting> gguf_cuttings() {
  return kCuttings;
}

std::optional<std::string> read_gguf_tokenizer(const formats::GgufMetadata& metadata, const std::string& what) {
  const GgufKeys keys(metadata, "tokenizer.ggml.", what);
  const std::string model = keys.string("model").value_or("none");
  if (model == "none" || model == "no_vocab") return {};
  if (model == "llama") return canonical(sentencepiece(keys));
  if (model == "gpt2") return canonical(byte_level(keys));
  keys.unsupported(fmt::format("a tokenizer '{}'", model), "llama (SentencePiece's BPE), gpt2 (byte-level BPE)");
}

}  // namespace mlx::nn
