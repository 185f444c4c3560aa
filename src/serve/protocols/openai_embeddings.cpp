// OpenAI's embeddings: vectors of the length 1, of states that are pooled as the model says, or as a key of ours,
// "pooling".
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "serve/protocols/json_fields.h"
#include "serve/protocols/openai.h"
#include "serve/protocols/tokens.h"

namespace mlx::serve {
namespace {

struct EmbeddingsRequest {
  std::string model;
  Json input = nullptr;
  bool base64 = false;
  std::optional<infer::Pooling> pooling{};
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
      if (!value.is_string() || std::ranges::find(infer::kPoolings, value) == std::end(infer::kPoolings))
        refuse_field(key, "last, mean, cls or max", value);
      out.pooling = infer::pooling_named(value);
    } else if (key == "dimensions") {
      out.dimensions = integer_of(value, key, 1, 1 << 24);
    } else {
      fail(ErrorKind::kUsage, "there is no key '{}' here", key.substr(0, 40));
    }
  }
  if (out.input.is_null()) fail(ErrorKind::kUsage, "the request has no 'input'");
  return out;
}

std::vector<std::vector<std::int32_t>> input_tokens(const Json& input, const Vectors& model) {
  const bool numbers = input.is_array() && !input.empty() && input[0].is_number();
  const Json list = input.is_array() && !numbers ? input : Json::array({input});
  if (list.empty() || list.size() > kMostVectors)
    refuse_field("input", fmt::format("a text, or 1 to {} of them", kMostVectors), input);
  std::vector<std::vector<std::int32_t>> out;
  for (const Json& one : list) {
    const std::string what = fmt::format("'input' {}", out.size());
    if (one.is_string()) {
      out.push_back(vector_tokens(model, one.get<std::string>(), what));
      continue;
    }
    out.push_back(given_tokens(one, "input", model.vocabulary));
    if (out.back().empty()) refuse_field("input", "texts that are not empty", one);
    check_length(model, out.back().size(), what);
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
  ServedModel& model = vector_model_named(asked, request.model);
  const Vectors vectors = model.vectors();
  EmbeddingJob job{.texts = input_tokens(request.input, vectors),
                   .pooling = request.pooling.value_or(vectors.pooling),
                   .exchange = asked.exchange};
  std::size_t tokens = 0;
  for (const auto& text : job.texts) tokens += text.size();
  const std::string name = request.model.empty() ? public_name(model.spec()) : request.model;
  const std::string headers = model.version_header();
  job.answer = [request, tokens, name, headers](const std::vector<std::vector<float>>& made) {
    const auto width = static_cast<std::int64_t>(made.at(0).size());
    if (request.dimensions && *request.dimensions != width)
      fail(ErrorKind::kUsage, "'dimensions': this model's vectors have {} numbers", width);
    Json data = Json::array();
    for (std::size_t i = 0; i < made.size(); ++i)
      data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", vector_json(made[i], request.base64)}});
    Reply reply = json_reply(200, Json{{"object", "list"},
                                       {"data", std::move(data)},
                                       {"model", name},
                                       {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}
                                      .dump());
    reply.headers = headers;
    return reply;
  };
  asked.exchange->watch();
  if (!vectors.embeddings.submit(std::move(job)))
    asked.exchange->reply(full_reply("too many texts are waiting for their vectors; try again later"));
}

}  // namespace mlx::serve
