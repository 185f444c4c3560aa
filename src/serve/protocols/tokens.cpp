// See tokens.h.
#include "serve/protocols/tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "serve/json_reader.h"
#include "serve/protocols/json_fields.h"
#include "serve/text_pieces.h"

namespace mlx::serve {
namespace {

std::string token_json(const data::Tokenizer& tokenizer, const infer::LogProbability& of) {
  const std::string piece(tokenizer.piece(of.token));
  std::string out = fmt::format("{{\"id\":{},\"token\":", of.token);
  append_json_string(out, TextPieces::whole(piece));
  std::vector<unsigned> bytes;
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  out += fmt::format(",\"logprob\":{},\"bytes\":[{}]", std::max(of.value, kLeastLogprob), fmt::join(bytes, ","));
  return out;
}

}  // namespace

std::string logprobs_json(const data::Tokenizer& tokenizer, const infer::LogProbabilities& of) {
  std::string out = token_json(tokenizer, of.drawn) + ",\"top_logprobs\":[";
  for (std::size_t i = 0; i < of.top.size(); ++i) out += (i > 0 ? "," : "") + token_json(tokenizer, of.top[i]) + '}';
  return out + "]}";
}

Reply event_stream() {
  return {.type = "text/event-stream", .headers = "Cache-Control: no-cache\r\n"};
}

std::vector<std::int32_t> given_tokens(const Json& numbers, std::string_view name, std::int64_t vocabulary) {
  std::vector<std::int32_t> out;
  for (const Json& number : list_of(numbers, name))
    out.push_back(static_cast<std::int32_t>(integer_of(number, name, 0, vocabulary - 1)));
  return out;
}

void submit(TextModel& model, std::vector<TextJob> jobs, const ExchangePtr& exchange) {
  exchange->watch();
  if (!model.submit(std::move(jobs)))
    exchange->reply(full_reply(fmt::format("{} texts are waiting; try again later", model.waiting())));
}

}  // namespace mlx::serve
