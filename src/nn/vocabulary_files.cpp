// A class of tokenizer says how text is cut and which tokens are special; three more files may change the latter.

#include "nn/vocabulary_files.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "data/subword/json_keys.h"
#include "data/subword/unicode.h"
#include "data/subword/utf8.h"
#include "nn/model_json.h"

namespace mlx::nn {
namespace {

constexpr const char *kVocabularyFile = "vocab.json", *kMergesFile = "merges.txt", *kWordsFile = "vocab.txt",
                     *kAddedFile = "added_tokens.json", *kSpecialFile = "special_tokens_map.json";
constexpr const char* kKnownClasses =
    "GPT2Tokenizer, RobertaTokenizer, Qwen2Tokenizer (vocab.json and merges.txt), BertTokenizer, DistilBertTokenizer "
    "(vocab.txt)";
constexpr std::size_t kMostSpecial = 4096;  // tokens, and keys of the files that name them: each is compared with each

enum class TokenizerClass { kGpt2, kRoberta, kQwen2, kBert };
struct KnownTokenizer {
  const char* name;
  TokenizerClass is;
};
constexpr KnownTokenizer kTokenizerClasses[] = {{"GPT2Tokenizer", TokenizerClass::kGpt2},
                                                {"RobertaTokenizer", TokenizerClass::kRoberta},
                                                {"Qwen2Tokenizer", TokenizerClass::kQwen2},
                                                {"BertTokenizer", TokenizerClass::kBert},
                                                {"DistilBertTokenizer", TokenizerClass::kBert}};
// By the beginning of the architecture's name.
constexpr KnownTokenizer kTokenizersOfModels[] = {
    {"GPT2", TokenizerClass::kGpt2},   {"Roberta", TokenizerClass::kRoberta}, {"Qwen2", TokenizerClass::kQwen2},
    {"Qwen3", TokenizerClass::kQwen2}, {"Bert", TokenizerClass::kBert},       {"DistilBert", TokenizerClass::kBert}};

struct DefaultToken {
  const char *role, *content;
};
// In the order in which those that the vocabulary has not are added to it.
std::vector<DefaultToken> default_tokens(TokenizerClass is) {
  constexpr const char* kEnd = "<|endoftext|>";
  switch (is) {
    case TokenizerClass::kGpt2:
      return {{"bos_token", kEnd},    {"eos_token", kEnd},    {"unk_token", kEnd},    {"sep_token", nullptr},
              {"pad_token", nullptr}, {"cls_token", nullptr}, {"mask_token", nullptr}};
    case TokenizerClass::kQwen2:
      return {{"bos_token", nullptr}, {"eos_token", kEnd},    {"unk_token", kEnd},    {"sep_token", nullptr},
              {"pad_token", kEnd},    {"cls_token", nullptr}, {"mask_token", nullptr}};
    case TokenizerClass::kRoberta:
      return {{"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},  {"sep_token", "</s>"},
              {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>"}};
    case TokenizerClass::kBert:
      break;
  }
  return {{"bos_token", nullptr}, {"eos_token", nullptr}, {"unk_token", "[UNK]"},  {"sep_token", "[SEP]"},
          {"pad_token", "[PAD]"}, {"cls_token", "[CLS]"}, {"mask_token", "[MASK]"}};
}

struct Files {
  const ReadFile& read;
  std::string folder;
  std::string what(const char* name) const { return printable(join_path(folder, name)); }
  // An empty object if there is no such file.
  Json object(const char* name, std::size_t most_keys = kMostSpecial) const {
    const std::optional<std::string> text = read(name);
    if (!text) return Json::object();
    Json json = parse_json(*text, what(name));
    if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what(name), json.type_name());
    if (json.size() > most_keys) fail(ErrorKind::kCorrupt, "{}: there are {} keys", what(name), json.size());
    return json;
  }
};

TokenizerClass class_of(const Json& config, const std::string& architecture, bool words, const Files& files) {
  std::string name = data::subword::text_or(config, "tokenizer_class", "", files.what(kTokenizerConfigFile));
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const auto is_it = [&](const KnownTokenizer& known) {
    const bool same = known.name == name || (name.empty() && architecture.starts_with(known.name));
    return same && (known.is == TokenizerClass::kBert) == words;
  };
  const auto known = name.empty() ? std::span<const KnownTokenizer>(kTokenizersOfModels) : kTokenizerClasses;
  if (const auto found = std::ranges::find_if(known, is_it); found != known.end()) return found->is;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: the tokenizer {} is not supported", files.what(words ? kWordsFile : kVocabularyFile),
                          name.empty() ? "of " + printable(architecture) : "'" + printable(name) + "'"),
              fmt::format("supported without a tokenizer.json: {}", kKnownClasses));
}

// --- vocabularies ---

struct Names {
  Json vocabulary = Json::object();
  std::unordered_map<std::string, std::int64_t> numbers;
  std::int64_t lines = 0;  // numbers that are taken
};

void index_names(Names& out) {
  for (const auto& [name, number] : out.vocabulary.items()) {
    const std::int64_t id = number.is_number_integer() ? number.get<std::int64_t>() : -1;
    out.numbers[name] = id;
    out.lines = std::max(out.lines, id < INT32_MAX ? id + 1 : 0);
  }
}

std::string_view without_blanks_behind(std::string_view line) {
  while (!line.empty()) {
    const data::subword::Character last = data::subword::character_before(line.data(), line.data() + line.size());
    if (!data::subword::is_white_space(last.code)) break;
    line.remove_suffix(last.bytes);
  }
  return line;
}

template <typename Use>
void for_each_line(std::string_view text, const Use& use) {
  for (std::size_t number = 0; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    use(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// A token is the number of its line, of its last one if there are several.
Names names_of_words(const std::string& text) {
  Names out;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    out.numbers[std::string(without_blanks_behind(line))] = static_cast<std::int64_t>(number);
    out.lines = static_cast<std::int64_t>(number) + 1;
  });
  Json::object_t vocabulary;  // appended to, as each is another
  vocabulary.reserve(out.numbers.size());
  for (const auto& [name, number] : out.numbers)
    static_cast<Json::object_t::Container&>(vocabulary).emplace_back(name, number);
  out.vocabulary = std::move(vocabulary);
  return out;
}

Json merges_of_lines(const std::string& text, const std::string& what) {
  Json out = Json::array();
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (line.starts_with("#version")) return;
    if (std::ranges::count(line, ' ') != 1)
      fail(ErrorKind::kCorrupt, "{}: line {}: expected two tokens with a blank between", what, number + 1);
    out.push_back(line);
  });
  return out;
}

// --- tokens that are looked for in the text ---

struct Special {
  std::string content;
  bool lstrip = false, rstrip = false, single_word = false, normalized = false, special = true;
};

// "<s>", or an object that says more. `special`: what such an object means if it does not say.
Special read_special(const Json& json, bool special, const std::string& what) {
  if (json.is_string()) return {json.get<std::string>()};
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: a token is neither a text nor an object", what);
  using data::subword::flag;
  Special out{json_string(json, "content", what)};
  out.special = flag(json, "special", special, what);
  out.lstrip = flag(json, "lstrip", false, what);
  out.rstrip = flag(json, "rstrip", false, what);
  out.single_word = flag(json, "single_word", false, what);
  out.normalized = flag(json, "normalized", !out.special, what);
  return out;
}

struct SpecialTokens {
  std::vector<Special> list;                               // in the order in which they are added
  std::vector<std::pair<std::string, std::string>> roles;  // "cls_token" and the token's text
  std::optional<std::string> role(std::string_view name) const {
    const auto found = std::ranges::find(roles, name, &std::pair<std::string, std::string>::first);
    return found == roles.end() ? std::nullopt : std::optional(found->second);
  }
  Special* find(const std::string& content) {
    const auto found = std::ranges::find(list, content, &Special::content);
    return found == list.end() ? nullptr : &*found;
  }
  void add(const Special& token, const std::string& what) {
    if (token.content.empty()) fail(ErrorKind::kCorrupt, "{}: a token is empty", what);
    if (list.size() >= kMostSpecial) fail(ErrorKind::kCorrupt, "{}: more than {} tokens", what, kMostSpecial);
    list.push_back(token);
  }
};

// Tokens with the numbers that they must have, in the order of these.
void add_numbered(std::vector<std::pair<std::int64_t, Special>> tokens, const Names& names, const std::string& what,
                  SpecialTokens& out) {
  std::ranges::sort(tokens, {}, &std::pair<std::int64_t, Special>::first);
  std::int64_t next = names.lines;
  for (const auto& [id, token] : tokens) {
    const auto known = names.numbers.find(token.content);
    const std::int64_t number = known == names.numbers.end() ? next++ : known->second;
    if (number != id)
      fail(ErrorKind::kCorrupt, "{}: '{}' has the number {}, in the vocabulary it is {}", what,
           printable(token.content.substr(0, 40)), id, number);
    out.add(token, what);
  }
}

std::vector<std::pair<std::int64_t, Special>> tokens_by_number(const Json& decoder, const std::string& what) {
  std::vector<std::pair<std::int64_t, Special>> out;
  for (const auto& [key, token] : decoder.items()) {
    const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) fail(ErrorKind::kCorrupt, "{}: added_tokens_decoder: '{}' is no number", what, printable(key));
    out.emplace_back(std::stoll(key), read_special(token, false, what));
  }
  return out;
}

bool names_token(const Json& config, const std::string& content) {
  return std::ranges::any_of(config.items(), [&](const auto& item) {
    if (!item.key().ends_with("_token")) return false;
    const Json& value = item.value();
    return value == content || (value.is_object() && value.value("content", Json()) == content);
  });
}

// added_tokens.json: {"<extra>": 50257}.
std::vector<std::pair<std::int64_t, Special>> old_added_tokens(const Files& files, const Json& config) {
  std::vector<std::pair<std::int64_t, Special>> out;
  const Json tokens = files.object(kAddedFile);
  for (const auto& [content, id] : tokens.items()) {
    if (!id.is_number_integer())
      fail(ErrorKind::kCorrupt, "{}: '{}' has no number", files.what(kAddedFile), printable(content.substr(0, 40)));
    Special token{content};
    token.special = names_token(config, content);
    token.normalized = !token.special;
    out.emplace_back(id.get<std::int64_t>(), token);
  }
  return out;
}

// What `config` says of a role, of which null says that there is none.
void add_role(const Json& config, const std::string& role, const char* otherwise, const std::string& what,
              SpecialTokens& out) {
  const auto found = config.find(role);
  if (found == config.end() ? otherwise == nullptr : found->is_null()) return;
  Special token = found == config.end() ? Special{otherwise} : read_special(*found, false, what);
  token.special = true;
  out.roles.emplace_back(role, token.content);
  if (Special* const known = out.find(token.content)) {
    known->special = true;
  } else {
    out.add(token, what);
  }
}

bool is_more_role(const Json& value, const std::string& key, const std::vector<DefaultToken>& roles) {
  return key.ends_with("_token") && (value.is_string() || value.is_object()) &&
         std::ranges::none_of(roles, [&](const DefaultToken& known) { return key == known.role; });
}

SpecialTokens special_tokens_of(TokenizerClass is, Json& config, const Names& names, const Files& files) {
  SpecialTokens out;
  const std::string what = files.what(kTokenizerConfigFile);
  if (data::subword::has_key(config, "added_tokens_decoder")) {
    add_numbered(tokens_by_number(json_object(config, "added_tokens_decoder", what), what), names, what, out);
  } else {
    const Json map = files.object(kSpecialFile);
    for (const auto& [key, value] : map.items()) {
      config[key] = value;
      if (value.is_object()) config[key]["special"] = true;
    }
    add_numbered(old_added_tokens(files, config), names, files.what(kAddedFile), out);
  }
  const std::vector<DefaultToken> roles = default_tokens(is);
  for (const DefaultToken& token : roles) add_role(config, token.role, token.content, what, out);
  for (const auto& [key, value] : config.items())
    if (is_more_role(value, key, roles)) add_role(config, key, nullptr, what, out);
  for (const char* const key : {"extra_special_tokens", "additional_special_tokens"}) {
    if (!config.contains(key) || !config[key].is_array() || config[key].empty()) continue;
    if (config[key].size() > kMostSpecial)
      fail(ErrorKind::kCorrupt, "{}: '{}' has {} tokens", what, key, config[key].size());
    for (const Json& one : config[key])
      if (const Special token = read_special(one, true, what); !out.find(token.content)) out.add(token, what);
    break;
  }
  return out;
}

// A token that the vocabulary has not gets the next number.
Json added_tokens_json(const SpecialTokens& tokens, Names& names, const std::string& what) {
  Json out = Json::array();
  for (const Special& token : tokens.list) {
    const auto [at, is_new] = names.numbers.try_emplace(token.content, names.lines);
    if (is_new && names.lines++ != static_cast<std::int64_t>(names.numbers.size()) - 1)
      fail(ErrorKind::kCorrupt, "{}: '{}' is not in the vocabulary, whose numbers have gaps", what,
           printable(token.content.substr(0, 40)));
    out.push_back({{"id", at->second},
                   {"content", token.content},
                   {"single_word", token.single_word},
                   {"lstrip", token.lstrip},
                   {"rstrip", token.rstrip},
                   {"normalized", token.normalized},
                   {"special", token.special}});
  }
  return out;
}

// --- the whole ---

// The tokens of these roles around a text, if they have any.
Json template_around(const SpecialTokens& tokens, const Names& names, const char* before, const char* behind) {
  Json single = Json::array(), special = Json::object();
  const auto add = [&](const char* role) {
    const std::optional<std::string> name = role == nullptr ? std::nullopt : tokens.role(role);
    if (!name) return;
    single.push_back({{"SpecialToken", {{"id", *name}, {"type_id", 0}}}});
    special[*name] = {{"id", *name}, {"ids", {names.numbers.at(*name)}}, {"tokens", {*name}}};
  };
  add(before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(behind);
  const Json pair = {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}};
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Json token_and_number(const SpecialTokens& tokens, const Names& names, const char* role, const std::string& what) {
  const std::optional<std::string> name = tokens.role(role);
  if (!name) fail(ErrorKind::kUsage, "{}: a tokenizer without a '{}' is not supported", what, role);
  return {*name, names.numbers.at(*name)};
}

constexpr const char* kWordsOfQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json words_of_bytes(TokenizerClass is, bool blank_before) {
  Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", blank_before}, {"trim_offsets", true}, {"use_regex", true}};
  if (is != TokenizerClass::kQwen2) return bytes;
  bytes["use_regex"] = false;
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kWordsOfQwen2}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
}

Json pairs_tokenizer(TokenizerClass is, const Json& config, const SpecialTokens& tokens, const Names& names,
                     Json merges, const std::string& what) {
  const bool blank_before = data::subword::flag(config, "add_prefix_space", false, what);
  Json processor;
  if (is == TokenizerClass::kRoberta) {
    processor = {{"type", "RobertaProcessing"},
                 {"sep", token_and_number(tokens, names, "sep_token", what)},
                 {"cls", token_and_number(tokens, names, "cls_token", what)},
                 {"trim_offsets", data::subword::flag(config, "trim_offsets", true, what)},
                 {"add_prefix_space", blank_before}};
  } else {
    const bool begins = data::subword::flag(config, "add_bos_token", false, what),
               ends = data::subword::flag(config, "add_eos_token", false, what);
    if (begins || ends)
      processor = template_around(tokens, names, begins ? "bos_token" : nullptr, ends ? "eos_token" : nullptr);
  }
  return {{"normalizer", is == TokenizerClass::kQwen2 ? Json{{"type", "NFC"}} : Json(nullptr)},
          {"pre_tokenizer", words_of_bytes(is, blank_before)},
          {"post_processor", processor},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", names.vocabulary},
            {"merges", std::move(merges)}}}};
}

Json words_tokenizer(const Json& config, const SpecialTokens& tokens, const Names& names, const std::string& what) {
  using data::subword::flag;
  const auto accents = config.find("strip_accents");
  const bool says = accents != config.end() && !accents->is_null();
  for (const char* const role : {"cls_token", "sep_token"}) (void)token_and_number(tokens, names, role, what);
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", flag(config, "tokenize_chinese_chars", true, what)},
            {"strip_accents", says ? Json(json_bool(config, "strip_accents", what)) : Json(nullptr)},
            {"lowercase", flag(config, "do_lower_case", true, what)}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", template_around(tokens, names, "cls_token", "sep_token")},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", tokens.role("unk_token").value_or("[UNK]")},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", names.vocabulary}}}};
}

}  // namespace

std::optional<std::string> tokenizer_of_vocabulary_files(const ReadFile& read, const std::string& architecture,
                                                         const std::string& folder) {
  const Files files{read, folder};
  const std::optional<std::string> pairs = read(kVocabularyFile), merges = pairs ? read(kMergesFile) : std::nullopt,
                                   words = pairs ? std::nullopt : read(kWordsFile);
  if (!pairs && !words) return {};
  Json config = files.object(kTokenizerConfigFile);
  const TokenizerClass is = class_of(config, architecture, words.has_value(), files);
  if (pairs && !merges)
    fail(ErrorKind::kNotFound, "{}: there is no {} beside it", files.what(kVocabularyFile), kMergesFile);
  Names names;
  if (words) {
    names = names_of_words(*words);
  } else {
    names.vocabulary = files.object(kVocabularyFile, std::numeric_limits<std::size_t>::max());
    index_names(names);
  }
  const SpecialTokens tokens = special_tokens_of(is, config, names, files);
  const std::string what = files.what(kTokenizerConfigFile);
  const Json added = added_tokens_json(tokens, names, files.what(words ? kWordsFile : kVocabularyFile));
  Json out = words
                 ? words_tokenizer(config, tokens, names, what)
                 : pairs_tokenizer(is, config, tokens, names, merges_of_lines(*merges, files.what(kMergesFile)), what);
  out["version"] = "1.0";
  out["added_tokens"] = added;
  return canonical(out);
}

}  // namespace mlx::nn
