// Four sources: bytes and characters, byte-level BPE and SentencePiece's BPE of a tokenizer.json, and a
// tokenizer.model.

#include "convert/gguf_vocabulary.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/document.h"
#include "data/subword/protobuf.h"
#include "nn/gguf_tokenizer.h"

namespace mlx::convert {
namespace {

using data::subword::Document;

constexpr const char* kBlankMark = "\xE2\x96\x81";
constexpr const char* kBytesCut = "gpt-2";  // any: tokens of bytes and characters end where words do

[[noreturn]] void no_form(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: llama.cpp has no form for {}", name, what),
              "--format hf keeps any tokenizer");
}

// Characters are put together of bytes, which need not be tokens themselves.
GgufVocabulary of_letters(const data::Tokenizer& tokenizer) {
  GgufVocabulary out;
  out.model = "gpt2", out.pre = kBytesCut;
  std::set<std::string> known;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    out.names.push_back(data::subword::to_byte_characters(piece));
    for (std::size_t end = 1; end < piece.size(); ++end) {
      const std::string merge = data::subword::to_byte_characters(piece.substr(0, end)) + " " +
                                data::subword::to_byte_characters(piece.substr(end, 1));
      if (known.insert(merge).second) out.merges.push_back(merge);
    }
  }
  out.types.assign(out.names.size(), nn::kNormalToken);
  return out;
}

const Json& member_of(const Json& json, const char* key) {
  static const Json none;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return !json.is_object() || found == json.end() ? none : *found;
}

std::string text_of_key(const Json& json, const char* key) {
  const Json& found = member_of(json, key);
  return found.is_string() ? found.get<std::string>() : std::string();
}

// A part, or those of a sequence.
std::vector<Json> steps_of(const Json& part, const char* list) {
  if (part.is_null()) return {};
  if (text_of_key(part, "type") != "Sequence") return {part};
  const Json& inside = member_of(part, list);
  return {inside.begin(), inside.end()};
}

struct MergePair {
  std::string left, right;
};
std::vector<MergePair> merges_of(const Json& model) {
  std::vector<MergePair> out;
  for (const Json& merge : member_of(model, "merges")) {
    if (merge.is_array() && merge.size() == 2) {
      out.push_back({merge[0].get<std::string>(), merge[1].get<std::string>()});
    } else {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t blank = text.find(' ', 1);
      out.push_back({text.substr(0, blank), text.substr(blank + 1)});
    }
  }
  return out;
}

// Names and types of a vocabulary and of the tokens added to it.
void add_tokens(const Document& document, GgufVocabulary& out) {
  const auto put = [&](std::int64_t id, const std::string& token, nn::GgufTokenType type) {
    const auto at = static_cast<std::size_t>(id);
    if (out.names.size() <= at) out.names.resize(at + 1), out.types.resize(at + 1, nn::kUnusedToken);
    out.names[at] = token, out.types[at] = type;
  };
  for (const auto& [token, id] : document.vocabulary) put(id, token, nn::kNormalToken);
  for (const Json& added : member_of(document.rest, "added_tokens"))
    put(added.at("id").get<std::int64_t>(), added.at("content").get<std::string>(),
        added.value("special", false) ? nn::kControlToken : nn::kUserToken);
  out.unknown = text_of_key(member_of(document.rest, "model"), "unk_token");
}

// The name of the way in which words are cut.
std::string cut_of(const Document& document, GgufVocabulary& out) {
  std::optional<std::string> pattern;  // none: GPT-2's
  bool known = true;
  for (const Json& step : steps_of(member_of(document.rest, "pre_tokenizer"), "pretokenizers")) {
    const std::string type = text_of_key(step, "type");
    if (type == "ByteLevel") {
      out.space_prefix = step.value("add_prefix_space", true);
      known &= step.value("use_regex", true) != pattern.has_value();
    } else {
      known &=
          type == "Split" && !pattern && text_of_key(step, "behavior") == "Isolated" && !step.value("invert", false);
      pattern = text_of_key(member_of(step, "pattern"), "Regex");
    }
  }
  const Json& normalizer = member_of(document.rest, "normalizer");
  const bool composes = text_of_key(normalizer, "type") == "NFC";
  const bool whole = member_of(document.rest, "model").value("ignore_merges", false);
  for (const nn::GgufCutting& cutting : nn::gguf_cuttings()) {
    const bool same = cutting.pattern ? pattern == cutting.pattern : !pattern;
    if (known && same && whole == cutting.whole_words && (normalizer.is_null() || (composes && cutting.composes)))
      return cutting.name;
  }
  return {};
}

GgufVocabulary of_byte_level(const Document& document, const std::string& name) {
  GgufVocabulary out;
  out.model = "gpt2";
  add_tokens(document, out);
  out.pre = cut_of(document, out);
  if (out.pre.empty()) no_form(name, "the way in which its tokenizer cuts words");
  for (const MergePair& merge : merges_of(member_of(document.rest, "model")))
    out.merges.push_back(merge.left + " " + merge.right);
  return out;
}

bool is_byte_token(const std::string& name) {
  constexpr std::size_t kLength = 6;
  return name.size() == kLength && name.starts_with("<0x") && name.ends_with('>');
}

// What is done to a text before: blanks become marks, and one may be put in front.
void check_marks(const Document& document, const std::string& name, GgufVocabulary& out) {
  std::vector<Json> steps = steps_of(member_of(document.rest, "normalizer"), "normalizers");
  for (Json& step : steps_of(member_of(document.rest, "pre_tokenizer"), "pretokenizers"))
    steps.push_back(std::move(step));
  bool marked = false, known = true;
  for (const Json& step : steps) {
    const std::string type = text_of_key(step, "type");
    if (type == "Prepend") {
      out.space_prefix = text_of_key(step, "prepend") == kBlankMark;
    } else if (type == "Replace") {
      marked = text_of_key(step, "content") == kBlankMark;
    } else if (type == "Metaspace") {
      marked = text_of_key(step, "replacement") == kBlankMark;
      out.space_prefix = step.value("prepend_scheme", std::string("always")) != "never";
    } else {
      known &= type == "Split";  // of blanks that are marks by now
    }
  }
  if (!marked || !known) no_form(name, "the way in which its tokenizer normalises a text");
}

// A token's score is the place of the first merge that makes it. llama.cpp merges whatever gives a token, so the list
// must have every way to make one of two others, and those of a token side by side.
void add_scores(const std::vector<MergePair>& merges, GgufVocabulary& out) {
  constexpr float kNeverMade = -1e6F;
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < out.names.size(); ++id)
    if (out.types[id] == nn::kNormalToken || out.types[id] == nn::kUserToken) ids.emplace(out.names[id], id);
  out.scores.assign(out.names.size(), 0);
  for (const auto& [token, id] : ids) out.scores[id] = kNeverMade;
  std::string before;
  std::size_t made = 0;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string whole = merges[i].left + merges[i].right;
    const auto found = ids.find(whole);
    if (found == ids.end()) continue;
    ++made;
    float& score = out.scores[found->second];
    if (score != kNeverMade && whole != before) out.exact = false;
    if (score == kNeverMade) score = -static_cast<float>(i);
    before = whole;
  }
  std::size_t ways = 0;
  for (const auto& [token, id] : ids)
    for (std::size_t at = 1; at < token.size(); ++at)
      ways += ids.contains(token.substr(0, at)) && ids.contains(token.substr(at));
  out.exact = out.exact && ways == made;
}

GgufVocabulary of_marked(const Document& document, const std::string& name) {
  GgufVocabulary out;
  out.model = "llama";
  add_tokens(document, out);
  check_marks(document, name, out);
  add_scores(merges_of(member_of(document.rest, "model")), out);
  for (std::size_t id = 0; id < out.names.size(); ++id) {
    if (out.names[id] == out.unknown) out.types[id] = nn::kUnknownToken;
    if (is_byte_token(out.names[id]) && out.types[id] != nn::kUnusedToken) out.types[id] = nn::kByteToken;
    if (out.types[id] != nn::kUserToken) continue;
    for (std::size_t at = 0; (at = out.names[id].find(kBlankMark, at)) != std::string::npos;)
      out.names[id].replace(at, std::string_view(kBlankMark).size(), " ");  // found in texts as they are
  }
  return out;
}

// A tokenizer.model (data/subword/sentencepiece.h).
GgufVocabulary of_sentencepiece(const std::string& file, const std::string& name) {
  using data::subword::ProtobufField;
  using data::subword::ProtobufReader;
  constexpr std::uint32_t kPieces = 1, kTrainer = 2, kNormalizer = 3;
  GgufVocabulary out;
  out.model = "llama", out.space_prefix = true;
  bool single_blanks = true, charsmap = false;
  const std::string what = name + ": tokenizer.model";
  ProtobufReader message(file, what);
  for (ProtobufField field; message.next(field);) {
    if (field.number == kPieces)
      out.names.emplace_back(), out.scores.push_back(0), out.types.push_back(nn::kNormalToken);
    if (field.number > kNormalizer) continue;
    ProtobufReader inside(field.bytes, what);
    for (ProtobufField of; inside.next(of);) {
      if (field.number == kPieces && of.number == 1) out.names.back() = of.bytes;
      if (field.number == kPieces && of.number == 2) out.scores.back() = of.real();
      if (field.number == kPieces && of.number == 3) out.types.back() = static_cast<std::int32_t>(of.integer);
      if (field.number == kTrainer && of.number == 24 && of.integer != 0)
        no_form(name, "a tokenizer with marks behind words");
      if (field.number == kNormalizer && of.number == 2) charsmap = !of.bytes.empty();
      if (field.number == kNormalizer && of.number == 3) out.space_prefix = of.integer != 0;
      if (field.number == kNormalizer && of.number == 4) single_blanks = of.integer != 0;
    }
  }
  if (single_blanks || charsmap) no_form(name, "a SentencePiece tokenizer that normalises its texts");
  const auto unknown = std::ranges::find(out.types, std::int32_t{nn::kUnknownToken});
  if (unknown != out.types.end()) out.unknown = out.names[static_cast<std::size_t>(unknown - out.types.begin())];
  return out;
}

GgufVocabulary of_tokenizer_json(const std::string& file, const std::string& name) {
  const Document document = data::subword::read_document(file, name + ": tokenizer.json");
  const Json& model = member_of(document.rest, "model");
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_of_key(model, key).empty()) no_form(name, "a tokenizer that marks parts of words");
  return model.value("byte_fallback", false) ? of_marked(document, name) : of_byte_level(document, name);
}

// llama.cpp wants a name of its own for each row of the embedding.
void fill_up(std::int64_t rows, GgufVocabulary& out) {
  const bool scored = !out.scores.empty();
  out.names.resize(static_cast<std::size_t>(rows));
  out.types.resize(out.names.size(), nn::kUnusedToken);
  if (scored) out.scores.resize(out.names.size());
  const std::unordered_set<std::string> known(out.names.begin(), out.names.end());
  for (std::size_t id = 0; id < out.names.size(); ++id) {
    if (!out.names[id].empty()) continue;
    out.names[id] = fmt::format("[PAD{}]", id), out.types[id] = nn::kUnusedToken;
    while (known.contains(out.names[id])) out.names[id] += "]";
  }
}

}  // namespace

GgufVocabulary gguf_vocabulary(const data::Tokenizer& tokenizer, std::int64_t rows, const std::string& name) {
  const std::string& kind = tokenizer.kind();
  GgufVocabulary out;
  if (kind == "bytes" || kind == "chars") {
    out = of_letters(tokenizer);
  } else if (kind != "bpe") {
    no_form(name, fmt::format("a tokenizer of the kind \"{}\" in such a model", kind));
  } else {
    const bool json = std::string_view(tokenizer.file_name()) == "tokenizer.json";
    out = json ? of_tokenizer_json(tokenizer.file(), name) : of_sentencepiece(tokenizer.file(), name);
  }
  fill_up(rows, out);
  return out;
}

}  // namespace mlx::convert
