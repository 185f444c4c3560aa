// What protocols have in common that answer with text: tokens as JSON, streams of events, and texts that are queued.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "infer/sampling.h"
#include "serve/text_model.h"

namespace mlx::serve {

inline constexpr double kLeastLogprob = -1e9;  // JSON has no infinity

// A token's bytes as text and as numbers, its number and log probability, and those of the likeliest ones, as OpenAI's
// chats have them.
std::string logprobs_json(const data::Tokenizer& tokenizer, const infer::LogProbabilities& of);
// The head of a stream of server-sent events.
Reply event_stream();
// The tokens that a request gives by their numbers, below `vocabulary`, under the key `name`.
std::vector<std::int32_t> given_tokens(const Json& numbers, std::string_view name, std::int64_t vocabulary);
// Queues them; replies for them where too many wait. They all have this exchange.
void submit(TextModel& model, std::vector<TextJob> jobs, const ExchangePtr& exchange);

}  // namespace mlx::serve
