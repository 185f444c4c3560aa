// OpenAI's interface, in parts: openai.cpp has the routes, models and errors. Source: the OpenAPI description of
// OpenAI's API.
#pragma once

#include <string>

#include "serve/protocols/protocol.h"
#include "serve/text_model.h"

namespace mlx::serve {

void openai_completions(const Asked& asked);
void openai_chat(const Asked& asked);
void openai_embeddings(const Asked& asked);

// The model that a request names; the only one that generates text, if it names none. Throws RefusedRequest with 404.
TextModel& text_model_named(const Asked& asked, const std::string& name);
// The same, of those that make vectors of texts.
ServedModel& vector_model_named(const Asked& asked, const std::string& name);
// What requests call it: with its version or alias, if it was asked for by one.
std::string public_name(const ModelSpec& spec);
// A prefix and 24 random hexadecimal digits.
std::string fresh_id(const std::string& prefix);
std::string openai_error(const Reply& reply);

}  // namespace mlx::serve
