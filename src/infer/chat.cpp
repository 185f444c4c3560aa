// The template and the names of tokens are in the files that the model came with.
#include "infer/chat.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer.h"

namespace mlx::infer {
namespace {

constexpr const char *kTokenizerConfig = "tokenizer_config.json", *kGeneration = "generation_config.json",
                     *kModelConfig = "config.json", *kTemplate = "chat_template.jinja";

// A file that the model came with; an empty object if there is none.
Json kept_json(const nn::Model& model, const char* file) {
  const auto found = model.kept.find(file);
  if (found == model.kept.end()) return Json::object();
  Json json = parse_json(found->second, file);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", file, json.type_name());
  return json;
}

// One template, or several with names.
std::string chosen_template(const Json& templates) {
  if (templates.is_string()) return templates.get<std::string>();
  if (templates.is_array()) {
    for (const Json& one : templates)
      if (one.is_object() && one.value("name", Json()) == "default" && one.contains("template"))
        return json_string(one, "template", kTokenizerConfig);
  }
  fail(ErrorKind::kUsage, "{}: 'chat_template' is neither text nor a list with one of the name default",
       kTokenizerConfig);
}

std::string template_of(const nn::Model& model, const std::string& name) {
  if (const auto file = model.kept.find(kTemplate); file != model.kept.end()) return file->second;
  const Json config = kept_json(model, kTokenizerConfig);
  if (const auto found = config.find("chat_template"); found != config.end() && !found->is_null())
    return chosen_template(*found);
  throw Error(ErrorKind::kUsage, fmt::format("{} has no chat template", name),
              "--prompt continues any text; templates come with models that were tuned for chats, in "
              "chat_template.jinja, tokenizer_config.json or a GGUF file");
}

std::shared_ptr<const data::Tokenizer> tokenizer_for_chat(const nn::Model& model, const std::string& name) {
  if (!model.preprocessing.tokenizer) fail(ErrorKind::kUsage, "{} has no tokenizer: it reads numbers, not text", name);
  return model.preprocessing.tokenizer;
}

void add_ids(const Json& config, const char* key, const data::Tokenizer& tokenizer, std::vector<std::int32_t>& ids) {
  const auto found = config.find(key);
  if (found == config.end()) return;
  const auto add = [&](const Json& id) {
    if (id.is_number_integer() && id >= 0 && id < tokenizer.size()) ids.push_back(id.get<std::int32_t>());
  };
  if (found->is_array()) {
    for (const Json& id : *found) add(id);
  } else {
    add(*found);
  }
}

std::vector<std::int32_t> ids_of(const nn::Model& model, const char* key, const data::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (const char* const file : {kGeneration, kModelConfig}) add_ids(kept_json(model, file), key, tokenizer, ids);
  return ids;
}

std::vector<std::pair<std::string, std::string>> names_of(const nn::Model& model, const data::Tokenizer& tokenizer) {
  constexpr std::array<const char*, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};
  std::vector<std::pair<std::string, std::string>> out;
  const Json config = kept_json(model, kTokenizerConfig);
  for (const char* const name : kNames) {
    const Json* found = config.contains(name) ? &config[name] : nullptr;
    if (found && found->is_object()) found = found->contains("content") ? &(*found)["content"] : nullptr;
    if (found && found->is_string()) {
      out.emplace_back(name, found->get<std::string>());
    } else if (!config.contains(name)) {
      const std::vector<std::int32_t> ids = ids_of(model, fmt::format("{}_id", name).c_str(), tokenizer);
      if (!ids.empty()) out.emplace_back(name, tokenizer.name(ids[0]));
    }
  }
  return out;
}

// The token that the whole text is.
std::optional<std::int32_t> token_named(const data::Tokenizer& tokenizer, std::string_view text) {
  std::int64_t unknown = 0;
  const std::vector<std::int32_t> tokens = tokenizer.encode(text, "a token's name", &unknown);
  if (unknown != 0 || tokens.size() != 1 || tokenizer.name(tokens[0]) != text) return {};
  return tokens[0];
}

// The tokens that the files name, and those of the template that end turns in all models that have them: some files
// name only the end of a text.
std::set<std::int32_t> ends_of(const nn::Model& model, const data::Tokenizer& tokenizer, std::string_view source,
                               const std::vector<std::pair<std::string, std::string>>& names) {
  const std::vector<std::int32_t> ids = ids_of(model, "eos_token_id", tokenizer);
  std::set<std::int32_t> ends(ids.begin(), ids.end());
  std::vector<std::string_view> words;
  for (const auto& [name, text] : names)
    if (name == "eos_token") words.emplace_back(text);
  for (const std::string_view word : {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"})
    if (source.find(word) != std::string_view::npos) words.push_back(word);
  for (const std::string_view word : words)
    if (const auto token = token_named(tokenizer, word)) ends.insert(*token);
  return ends;
}

}  // namespace

Chat::Chat(const nn::Model& model, const std::string& name)
    : tokenizer_(tokenizer_for_chat(model, name)),
      template_(template_of(model, name), "the chat template"),
      names_(names_of(model, *tokenizer_)),
      ends_(ends_of(model, *tokenizer_, template_of(model, name), names_)) {}

std::string Chat::prompt(const Json& messages, const std::tm& now) const {
  Json variables = {
      {"messages", messages}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", true}};
  for (const auto& [name, text] : names_) variables[name] = text;
  return template_.render(variables, now);
}

std::vector<std::int32_t> Chat::tokens(const std::string& prompt) const {
  return tokenizer_->encode(prompt, "the conversation");
}

std::string Chat::piece(std::int32_t token, bool first) const {
  const std::string shown = tokenizer_->decode_text(std::array{token}, true);
  std::string piece(tokenizer_->piece(token));
  if (shown.empty()) return {};
  if (first && piece.starts_with(' ') && !shown.starts_with(' '))
    piece.erase(0, 1);  // the one that encoding puts there
  return piece;
}

void check_messages(const Json& messages, const std::string& what) {
  if (!messages.is_array() || messages.empty())
    fail(ErrorKind::kUsage, "{}: expected a list of messages, [{{\"role\": \"user\", \"content\": \"…\"}}]", what);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      fail(ErrorKind::kUsage, "{}: message {}: no object with a text 'role'", what, i + 1);
    if (!message.contains("content")) fail(ErrorKind::kUsage, "{}: message {}: no 'content'", what, i + 1);
  }
}

}  // namespace mlx::infer
