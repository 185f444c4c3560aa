// The body of POST /v2/models/NAME/generate and generate_stream.
// Source: the generate extension of KServe's Open Inference Protocol v2 and of Triton.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "infer/text_writer.h"

namespace mlx::serve {

// What is not given is as in `mlx predict`.
struct GenerateRequest {
  std::string id, prompt;
  std::int64_t max_tokens = 200;
  infer::Sampling sampling{.temperature = 0.8};
  std::string stop;  // the text ends behind it; "" for none
  std::int64_t logprobs = infer::kNoLogprobs;
  // What the text must be like, at most one of them: GBNF, or a JSON schema as JSON.
  std::string grammar, schema;
};

// kCorrupt for malformed JSON, kUsage for parameters that do not exist or are out of range.
GenerateRequest parse_generate_request(std::string_view body);

}  // namespace mlx::serve
