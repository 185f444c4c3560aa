// The bodies of OpenAI's completions and chats. Source: the OpenAPI description of OpenAI's API, /completions and
// /chat/completions. Some more names are those of llama.cpp's and vLLM's servers: top_k, min_p, typical_p,
// repetition_penalty, grammar, chat_template_kwargs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/protocols/asked_text.h"

namespace mlx::serve {

struct OpenAiRequest {
  std::string model;  // "" if none is named
  AskedChat chat{};
  Json prompt = nullptr;  // of completions
  bool stream = false, include_usage = false;
};

// kCorrupt for malformed JSON, kUsage for what does not exist or is out of range.
OpenAiRequest parse_completion(std::string_view body);
OpenAiRequest parse_chat(std::string_view body);

// A message as templates take it: its content is one text, arguments of calls are objects, and the developer is the
// system. `place` names it in messages.
Json template_message(const Json& message, const std::string& place);

}  // namespace mlx::serve
