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
#include "nn/kept_files.h"

namespace mlx::infer {
namespace {

std::string template_of(const nn::Model& model, const std::string& name) {
  if (const std::optional<std::string> found = nn::chat_template(model)) return *found;
  throw Error(ErrorKind::kUsage, fmt::format("{} has no chat template", name),
              "--prompt continues any text; templates come with models that were tuned for chats, in "
              "chat_template.jinja, tokenizer_config.json or a GGUF file");
}

std::shared_ptr<const data::Tokenizer> tokenizer_for_chat(const nn::Model& model, const std::string& name) {
  if (!model.preprocessing.tokenizer) fail(ErrorKind::kUsage, "{} has no tokenizer: it reads numbers, not text", name);
  return model.preprocessing.tokenizer;
}

// The token that the whole text is.
std::optional<std::int32_t> token_named(const data::Tokenizer& tokenizer, std::string_view text) {
  std::int64_t unknown = 0;
  const std::vector<std::int32_t> tokens = tokenizer.encode(text, "a token's name", &unknown);
  if (unknown != 0 || tokens.size() != 1 || tokenizer.name(tokens[0]) != text) return {};
  return tokens[0];
}

// Also those of the template that end turns in all models that have them: some files name only the end of a text.
std::set<std::int32_t> turn_ends(const nn::Model& model, const data::Tokenizer& tokenizer, std::string_view source) {
  std::set<std::int32_t> ends = end_tokens(model, tokenizer);
  for (const std::string_view word : {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"}) {
    if (source.find(word) == std::string_view::npos) continue;
    if (const auto token = token_named(tokenizer, word)) ends.insert(*token);
  }
  return ends;
}

}  // namespace

std::set<std::int32_t> end_tokens(const nn::Model& model, const data::Tokenizer& tokenizer) {
  const std::vector<std::int32_t> ids = nn::token_ids(model, "eos_token_id");
  std::set<std::int32_t> ends(ids.begin(), ids.end());
  for (const auto& [name, text] : nn::token_names(model)) {
    if (name != "eos_token") continue;
    if (const auto token = token_named(tokenizer, text)) ends.insert(*token);
  }
  return ends;
}

Chat::Chat(const nn::Model& model, const std::string& name)
    : tokenizer_(tokenizer_for_chat(model, name)),
      source_(template_of(model, name)),
      template_(source_, "the chat template"),
      names_(nn::token_names(model)),
      ends_(turn_ends(model, *tokenizer_, source_)) {}

std::string Chat::prompt(const Json& messages, const std::tm& now) const {
  return prompt(messages, now, Json::object());
}

std::string Chat::prompt(const Json& messages, const std::tm& now, const Json& more) const {
  Json variables = {
      {"messages", messages}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", true}};
  for (const auto& [name, value] : more.items()) variables[name] = value;
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

bool Chat::strips_blank() const {
  std::int64_t unknown = 0;
  const std::vector<std::int32_t> tokens = tokenizer_->encode("a", "a letter", &unknown);
  if (tokens.empty() || unknown > 0 || !tokenizer_->piece(tokens[0]).starts_with(' ')) return false;
  return !tokenizer_->decode_text(std::array{tokens[0]}, true).starts_with(' ');
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
