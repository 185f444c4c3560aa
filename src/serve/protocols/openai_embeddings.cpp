// OpenAI's embeddings: the state of a text's last token, or the mean of all ("pooling", a key of ours), with the
// length 1.
#include <fmt/format.h>

#include <bit>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "serve/protocols/json_fields.h"
#include "serve/protocols/openai.h"
#include "serve/protocols/tokens.h"

namespace mlx::serve {
namespace {

constexpr std::size_t kMostTexts = 2048;

struct EmbeddingsRequest {
  std::string model;
  Json input = nullptr;
  bool base64 = false;
  infer::Pooling pooling = infer::Pooling::kLast;
  std::optional<std::int64_t> dimensions{};
};

EmbeddingsRequest parse_embeddings(std::string_view body) {
  EmbeddingsRequest out;
  const Json json = body_of(body);
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || key == "user") continue;
    if (key == "model") {
      out.model = text_of(value, key);
    } else if (key == "input") {
      out.input = value;
    } else if (key == "encoding_format") {
      out.base64 = value == "base64";
      if (!out.base64 && value != "float") refuse_field(key, "float or base64", value);
    } else if (key == "pooling") {
      out.pooling = value == "mean" ? infer::Pooling::kMean : infer::Pooling::kLast;
      if (value != "mean" && value != "last") refuse_field(key, "last or mean", value);
    } else if (key == "dimensions") {
      out.dimensions = integer_of(value, key, 1, 1 << 24);
    } else {
      fail(ErrorKind::kUsage, "there is no key '{}' here", key.substr(0, 40));
    }
  }
  if (out.input.is_null()) fail(ErrorKind::kUsage, "the request has no 'input'");
  return out;
}

std::vector<std::vector<std::int32_t>> input_tokens(const Json& input, const TextModel& model) {
  const bool numbers = input.is_array() && !input.empty() && input[0].is_number();
  const Json list = input.is_array() && !numbers ? input : Json::array({input});
  if (list.empty() || list.size() > kMostTexts)
    refuse_field("input", fmt::format("a text, or 1 to {} of them", kMostTexts), input);
  std::vector<std::vector<std::int32_t>> out;
  for (const Json& one : list) {
    out.push_back(one.is_string() ? model.tokenizer().encode_placed(one.get<std::string>(), "'input'", true).ids
                                  : given_tokens(one, "input", model));
    const auto size = static_cast<std::int64_t>(out.back().size());
    if (size == 0) refuse_field("input", "texts that are not empty", one);
    if (size > model.context())
      throw RefusedRequest(
          400, "context_length_exceeded",
          fmt::format("input {} has {} tokens, the model takes {}", out.size() - 1, size, model.context()));
  }
  return out;
}

Json vector_json(const std::vector<float>& vector, bool base64) {
  static_assert(std::endian::native == std::endian::little);
  if (!base64) return vector;
  return to_base64(ByteView(reinterpret_cast<const std::uint8_t*>(vector.data()), vector.size() * sizeof(float)));
}

}  // namespace

void openai_embeddings(const Asked& asked) {
  const EmbeddingsRequest request = parse_embeddings(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  EmbeddingJob job{.texts = input_tokens(request.input, model), .pooling = request.pooling, .exchange = asked.exchange};
  std::size_t tokens = 0;
  for (const auto& text : job.texts) tokens += text.size();
  const std::string name = request.model.empty() ? public_name(model.spec()) : request.model;
  const std::string headers = model.version_header();
  job.answer = [request, tokens, name, headers](const std::vector<std::vector<float>>& vectors) {
    const auto width = static_cast<std::int64_t>(vectors.at(0).size());
    if (request.dimensions && *request.dimensions != width)
      fail(ErrorKind::kUsage, "'dimensions': this model's vectors have {} numbers", width);
    Json data = Json::array();
    for (std::size_t i = 0; i < vectors.size(); ++i)
      data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", vector_json(vectors[i], request.base64)}});
    Reply reply = json_reply(200, Json{{"object", "list"},
                                       {"data", std::move(data)},
                                       {"model", name},
                                       {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}
                                      .dump());
    reply.headers = headers;
    return reply;
  };
  asked.exchange->watch();
  if (!model.embeddings().submit(std::move(job)))
    asked.exchange->reply(busy_reply("too many texts are waiting for their vectors; try again later"));
}

}  // namespace mlx::serve
