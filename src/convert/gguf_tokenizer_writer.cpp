// Tokens that stand around texts are known by name and number from the files that the model came with.

#include "convert/gguf_tokenizer_writer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "convert/gguf_vocabulary.h"
#include "nn/kept_files.h"
#include "nn/model_json.h"

namespace mlx::convert {
namespace {

using Ids = std::vector<std::int32_t>;

std::optional<std::int32_t> id_of(const GgufVocabulary& vocabulary, const std::string& token) {
  const auto found = std::ranges::find(vocabulary.names, token);
  if (token.empty() || found == vocabulary.names.end()) return {};
  return static_cast<std::int32_t>(found - vocabulary.names.begin());
}

// What the tokenizer itself puts around a text.
struct Around {
  Ids before, behind;
};
Around around(const data::Tokenizer& tokenizer) {
  Around out;
  if (tokenizer.kind() == "chars") return out;
  const Ids whole = tokenizer.encode_placed("a", "a text", true).ids,
            text = tokenizer.encode_placed("a", "a text", false).ids;
  const auto found = std::search(whole.begin(), whole.end(), text.begin(), text.end());
  CHECK(found != whole.end());
  out.before.assign(whole.begin(), found);
  out.behind.assign(found + static_cast<std::ptrdiff_t>(text.size()), whole.end());
  return out;
}

// A token that ends texts although no text has it: llama.cpp takes one in any case, and by default number 11.
std::int32_t rarest(const GgufVocabulary& vocabulary) {
  constexpr const char* kNul = "\xC4\x80";  // the byte 0 in the alphabet of bytes
  return id_of(vocabulary, kNul).value_or(static_cast<std::int32_t>(vocabulary.names.size()) - 1);
}

struct Special {
  std::optional<std::int32_t> bos, unknown, padding;
  Ids ends;
  bool add_bos = false, add_eos = false;
};

Special special_of(const nn::Model& model, const GgufVocabulary& vocabulary, const std::string& name) {
  Special out;
  const Around tokens = around(*model.preprocessing.tokenizer);
  if (tokens.before.size() > 1 || tokens.behind.size() > 1)
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: its tokenizer puts more than one token before or behind a text, as llama.cpp cannot", name),
        "--format hf keeps any tokenizer");
  for (const auto& [key, token] : nn::token_names(model)) {
    const std::optional<std::int32_t> id = id_of(vocabulary, token);
    if (key == "bos_token") out.bos = id;
    if (key == "pad_token") out.padding = id;
    if (key == "eos_token" && id) out.ends.push_back(*id);
  }
  out.unknown = id_of(vocabulary, vocabulary.unknown);
  if (!tokens.before.empty()) out.bos = tokens.before[0], out.add_bos = true;
  if (!tokens.behind.empty()) out.ends.insert(out.ends.begin(), tokens.behind[0]), out.add_eos = true;
  for (const std::int32_t id : nn::token_ids(model, "eos_token_id")) out.ends.push_back(id);
  if (std::string_view(model.preprocessing.tokenizer->file_name()) != "tokenizer.json") {
    const Json config = nn::kept_json(model, nn::kTokenizerConfigFile);
    out.add_bos = out.bos && config.value("add_bos_token", Json(true)) != false;
    out.add_eos = !out.ends.empty() && config.value("add_eos_token", Json(false)) == true;
  }
  return out;
}

void add_special(const Special& special, const GgufVocabulary& vocabulary, GgufHeader& header) {
  const auto add = [&](const char* key, std::optional<std::int32_t> id) {
    if (id) header.add(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<std::uint32_t>(*id));
  };
  add("bos", special.bos);
  add("unknown", special.unknown);
  add("padding", special.padding);
  Ids ends;
  for (const std::int32_t id : special.ends)
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  if (ends.empty()) ends.push_back(rarest(vocabulary));
  constexpr const char* kEnds[] = {"eos", "eot", "eom"};
  for (std::size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i) add(kEnds[i], ends[i]);
  header.add("tokenizer.ggml.add_bos_token", special.add_bos);
  header.add("tokenizer.ggml.add_eos_token", special.add_eos);
}

}  // namespace

void add_gguf_tokenizer(const nn::Model& model, std::int64_t rows, const std::string& name, GgufHeader& header,
                        std::vector<std::string>& warnings) {
  if (!model.preprocessing.tokenizer) return header.add("tokenizer.ggml.model", "none");
  const GgufVocabulary vocabulary = gguf_vocabulary(*model.preprocessing.tokenizer, rows, name);
  header.add("tokenizer.ggml.model", vocabulary.model);
  if (!vocabulary.pre.empty()) header.add("tokenizer.ggml.pre", vocabulary.pre);
  header.add("tokenizer.ggml.tokens", vocabulary.names);
  header.add("tokenizer.ggml.token_type", vocabulary.types);
  if (vocabulary.model == "gpt2")
    header.add("tokenizer.ggml.merges", vocabulary.merges);
  else
    header.add("tokenizer.ggml.scores", vocabulary.scores);
  header.add("tokenizer.ggml.add_space_prefix", vocabulary.space_prefix);
  add_special(special_of(model, vocabulary, name), vocabulary, header);
  if (const std::optional<std::string> chat = nn::chat_template(model)) header.add("tokenizer.chat_template", *chat);
  if (!vocabulary.exact)
    warnings.emplace_back(
        "llama.cpp finds other tokens in some texts: it merges all that gives a token, the tokenizer only "
        "what its list has");
}

}  // namespace mlx::convert
