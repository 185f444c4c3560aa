// Conversations with a language model, in the form that its chat template gives them. Used by `mlx predict --chat`.
#pragma once

#include <cstdint>
#include <ctime>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "infer/jinja/template.h"
#include "nn/model.h"

namespace mlx::infer {

class Chat {
 public:
  // Throws kUsage if the model has no chat template, no tokenizer, or a template that is not supported. `name`: the
  // model's, for messages. `model` must outlive the result.
  Chat(const nn::Model& model, const std::string& name);

  // The conversation so far, and the beginning of an answer. `messages`: an array of objects with a role. `now`: for
  // templates that write a date. `more`: an object with further variables, such as the tools. Throws kUsage for
  // messages that the template refuses.
  std::string prompt(const Json& messages, const std::tm& now) const;
  std::string prompt(const Json& messages, const std::tm& now, const Json& more) const;
  // Whether the template writes this.
  bool writes(std::string_view text) const { return source_.find(text) != std::string::npos; }
  // Names of special tokens in the text become those tokens, whoever wrote them, as in transformers and llama.cpp.
  std::vector<std::int32_t> tokens(const std::string& prompt) const;
  // Whether this token ends an answer.
  bool ends(std::int32_t token) const { return ends_.contains(token); }
  const std::set<std::int32_t>& ends() const { return ends_; }
  // What a token adds to an answer; nothing for a special one.
  std::string piece(std::int32_t token, bool first) const;
  // Whether the first token of an answer may have a blank in front that is no part of it.
  bool strips_blank() const;

 private:
  std::shared_ptr<const data::Tokenizer> tokenizer_;
  std::string source_;
  jinja::Template template_;
  std::vector<std::pair<std::string, std::string>> names_;  // "bos_token" and the like
  std::set<std::int32_t> ends_;
};

// The tokens that end a text: those that the model's files name. None for a model without such files.
std::set<std::int32_t> end_tokens(const nn::Model& model, const data::Tokenizer& tokenizer);

// Throws kUsage, naming `what`, unless it is an array, not empty, of objects with a role and a content.
void check_messages(const Json& messages, const std::string& what);

}  // namespace mlx::infer
