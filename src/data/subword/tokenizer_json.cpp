// The parts of a tokenizer.json put together.

#include "data/subword/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/json_keys.h"
#include "data/subword/vocabulary.h"

namespace mlx::data::subword {
namespace {

constexpr std::size_t kMostAddedTokens = 1 << 20, kLongestAddedToken = 1024, kMostPieceBytes = std::size_t{256} << 20;

const Json& part(const Json& json, const char* key) {
  static const Json none;
  const auto found = json.find(key);
  return found == json.end() ? none : *found;
}

AddedToken read_added_token(const Json& json, const std::string& what) {
  AddedToken out;
  out.content = json_string(json, "content", what);
  const std::int64_t id = json_int(json, "id", what);
  if (out.content.empty()) fail(ErrorKind::kCorrupt, "{}: an added token is empty", what);
  if (out.content.size() > kLongestAddedToken)
    fail(ErrorKind::kCorrupt, "{}: an added token has more than {} bytes", what, kLongestAddedToken);
  if (id < 0 || id >= kMostTokens)
    fail(ErrorKind::kCorrupt, "{}: '{}': its number is {}", what, out.content.substr(0, 40), id);
  out.id = static_cast<std::int32_t>(id);
  out.single_word = flag(json, "single_word", false, what);
  out.lstrip = flag(json, "lstrip", false, what);
  out.rstrip = flag(json, "rstrip", false, what);
  out.special = flag(json, "special", false, what);
  out.normalized = flag(json, "normalized", !out.special, what);
  return out;
}

std::string normalized(const std::string& text, const Normalizer* normalizer) {
  if (normalizer == nullptr || normalizer->keeps(text)) return text;
  AlignedText out;
  out.assign(text, 0, false);
  normalizer->apply(out, true);
  return out.text();
}

void add_tokens(const Json& json, const Vocabulary& vocabulary, Pipeline& out, const std::string& where) {
  if (!has_key(json, "added_tokens")) return;
  const std::string what = where + ": added_tokens";
  const Json& list = json_array(json, "added_tokens", where);
  if (list.size() > kMostAddedTokens) fail(ErrorKind::kCorrupt, "{}: there are {}", what, list.size());
  const std::size_t most = out.names.size() + list.size() + (1 << 16);
  for (const Json& one : list) {
    const AddedToken token = read_added_token(one, what);
    const auto at = static_cast<std::size_t>(token.id);
    const std::int32_t known = vocabulary.tokens.find(token.content);
    if ((known >= 0 && known != token.id) || at >= most)
      fail(ErrorKind::kCorrupt, "{}: '{}' has the number {} here, {} in 'vocab'", what, token.content.substr(0, 40),
           token.id, known >= 0 ? std::to_string(known) : "none");
    if (out.names.size() <= at) {
      out.names.resize(at + 1);
      out.pieces.resize(at + 1);
      out.special.resize(at + 1);
      out.is_added.resize(at + 1);
    }
    const std::string pattern = token.normalized ? normalized(token.content, out.normalizer.get()) : token.content;
    out.names[at] = pattern;
    out.pieces[at] = token.content;
    out.special[at] = token.special;
    out.is_added[at] = true;
    (token.normalized ? out.normalized_added : out.added).add(token, pattern);
  }
}

std::int32_t token_number(const Json& value, const Pipeline& out, const std::string& what) {
  const std::int64_t id = value.is_number_integer() ? value.get<std::int64_t>() : -1;
  if (id < 0 || static_cast<std::uint64_t>(id) >= out.names.size())
    fail(ErrorKind::kCorrupt, "{}: a special token has no number of the vocabulary", what);
  return static_cast<std::int32_t>(id);
}

void add_template(const Json& json, Pipeline& out, const std::string& what) {
  const Json& known = json_object(json, "special_tokens", what);
  bool seen = false;
  for (const Json& item : json_array(json, "single", what)) {
    if (has_key(item, "Sequence")) {
      seen = true;
      continue;
    }
    const std::string name = json_string(json_object(item, "SpecialToken", what), "id", what);
    for (const Json& id : json_array(json_object(known, name, what), "ids", what))
      (seen ? out.behind : out.before).push_back(token_number(id, out, what));
  }
}

// ["</s>", 2]
void add_pair(const Json& json, const char* key, std::vector<std::int32_t>& to, const Pipeline& out,
              const std::string& what) {
  const Json& pair = json_array(json, key, what);
  if (pair.size() != 2) fail(ErrorKind::kCorrupt, "{}: '{}' is not a token and its number", what, key);
  to.push_back(token_number(pair[1], out, what));
}

void add_processor(const Json& json, Pipeline& out, const std::string& where) {
  if (json.is_null()) return;
  const std::string type = json_string(json, "type", where), what = where + ": " + type;
  if (type == "Sequence") {
    for (const Json& one : json_array(json, "processors", what)) add_processor(one, out, where);
  } else if (type == "TemplateProcessing") {
    add_template(json, out, what);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    add_pair(json, "cls", out.before, out, what);
    add_pair(json, "sep", out.behind, out, what);
    if (type == "RobertaProcessing")
      out.trim = {flag(json, "trim_offsets", true, what), flag(json, "add_prefix_space", true, what)};
  } else if (type == "ByteLevel") {
    out.trim = {flag(json, "trim_offsets", true, what), flag(json, "add_prefix_space", true, what)};
  } else {
    refuse_kind("post-processor", type, where);
  }
}

}  // namespace

Pipeline read_tokenizer_json(std::string_view text, const std::string& what) {
  const Document document = read_document(text, what);
  const Json& json = document.rest;
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, json.type_name());
  Pipeline out;
  out.normalizer = make_normalizer(part(json, "normalizer"), what + ": normalizer");
  out.pre_tokenizers = make_pre_tokenizers(part(json, "pre_tokenizer"), what + ": pre_tokenizer");
  out.decoder = Decoder(part(json, "decoder"), what + ": decoder");
  NamedModel model = read_model(document, out.pre_tokenizers.bytes, what + ": model");
  out.kind = model.kind;
  out.model = std::move(model.model);
  out.names = model.vocabulary.names;
  out.pieces.reserve(out.names.size());
  std::size_t bytes = 0;
  for (const std::string& name : out.names) {
    out.pieces.push_back(out.decoder.inside(name));
    bytes += out.pieces.back().size();
    if (bytes > kMostPieceBytes) fail(ErrorKind::kCorrupt, "{}: the vocabulary is decoded to too much text", what);
  }
  out.special.resize(out.names.size());
  out.is_added.resize(out.names.size());
  add_tokens(json, model.vocabulary, out, what);
  add_processor(part(json, "post_processor"), out, what + ": post_processor");
  return out;
}

}  // namespace mlx::data::subword
