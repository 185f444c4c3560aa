// A parameter is a row: its name and how it is read.
#include "serve/protocols/generate_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "serve/json_reader.h"

namespace mlx::serve {
namespace {

constexpr std::int64_t kMostTokens = 1 << 24;

std::int64_t integer(JsonReader& in, std::string_view name, std::int64_t least, std::int64_t most) {
  const std::string_view text = JsonReader(in).raw();
  try {
    const std::int64_t value = in.integer();
    if (value >= least && value <= most) return value;
  } catch (const Error&) {
    // No integer at all is told like one that is out of range.
  }
  fail(ErrorKind::kUsage, "parameter '{}': expected an integer from {} to {}, got {}", name, least, most,
       text.substr(0, 40));
}

double real(JsonReader& in, std::string_view name, bool zero, double most) {
  const std::string_view text = JsonReader(in).raw();
  try {
    const double value = in.real();
    if ((zero ? value >= 0 : value > 0) && value <= most) return value;
  } catch (const Error&) {
    // As above.
  }
  fail(ErrorKind::kUsage, "parameter '{}': expected a number {} {}, got {}", name,
       zero ? "from 0 to" : "above 0 and at most", most, text.substr(0, 40));
}

// May be negative, which favours what occurred.
double penalty(JsonReader& in, std::string_view name) {
  constexpr double kMost = 1e6;
  const std::string_view text = JsonReader(in).raw();
  try {
    const double value = in.real();
    if (value >= -kMost && value <= kMost) return value;
  } catch (const Error&) {
    // As above.
  }
  fail(ErrorKind::kUsage, "parameter '{}': expected a number from -{} to {}, got {}", name, kMost, kMost,
       text.substr(0, 40));
}

void set_schema(GenerateRequest& to, std::string_view schema) {
  if (!to.grammar.empty() || !to.schema.empty())
    fail(ErrorKind::kUsage, "parameters 'grammar', 'json_schema' and 'response_format' do not go together");
  to.schema = schema;
}

// {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": …}}, as OpenAI has it.
void read_response_format(JsonReader& in, GenerateRequest& to) {
  std::string type;
  std::optional<std::string> schema;
  in.object([&](const std::string& key) {
    if (key == "type") {
      type = in.string();
    } else if (key == "json_schema") {
      in.object([&](const std::string& inner) {
        if (inner == "schema")
          schema = in.raw();
        else
          in.skip();
      });
    } else {
      in.skip();
    }
  });
  if (type == "json_schema") {
    if (!schema) fail(ErrorKind::kUsage, "parameter 'response_format': there is no 'schema' in its 'json_schema'");
    return set_schema(to, *schema);
  }
  if (type == "json_object") return set_schema(to, R"({"type":"object"})");
  if (type != "text")
    fail(ErrorKind::kUsage, "parameter 'response_format': expected a 'type' of text, json_object or json_schema");
}

struct Parameter {
  const char* name;
  void (*read)(JsonReader& in, GenerateRequest& to);
};
const Parameter kParameters[] = {
    {"max_tokens",
     [](JsonReader& in, GenerateRequest& to) { to.max_tokens = integer(in, "max_tokens", 0, kMostTokens); }},
    {"temperature",
     [](JsonReader& in, GenerateRequest& to) { to.sampling.temperature = real(in, "temperature", true, 1000); }},
    {"top_k", [](JsonReader& in, GenerateRequest& to) { to.sampling.top_k = integer(in, "top_k", 0, kMostTokens); }},
    {"top_p", [](JsonReader& in, GenerateRequest& to) { to.sampling.top_p = real(in, "top_p", false, 1); }},
    {"min_p", [](JsonReader& in, GenerateRequest& to) { to.sampling.min_p = real(in, "min_p", true, 1); }},
    {"typical", [](JsonReader& in, GenerateRequest& to) { to.sampling.typical = real(in, "typical", false, 1); }},
    {"repetition_penalty",
     [](JsonReader& in, GenerateRequest& to) {
       to.sampling.repetition = real(in, "repetition_penalty", false, 1000);
       if (to.sampling.repetition < infer::kLeastRepetition)
         fail(ErrorKind::kUsage, "parameter 'repetition_penalty': expected at least {}", infer::kLeastRepetition);
     }},
    {"frequency_penalty",
     [](JsonReader& in, GenerateRequest& to) { to.sampling.frequency = penalty(in, "frequency_penalty"); }},
    {"presence_penalty",
     [](JsonReader& in, GenerateRequest& to) { to.sampling.presence = penalty(in, "presence_penalty"); }},
    {"seed",
     [](JsonReader& in, GenerateRequest& to) {
       to.sampling.seed = static_cast<std::uint64_t>(integer(in, "seed", 0, std::numeric_limits<std::int64_t>::max()));
     }},
    {"stop", [](JsonReader& in, GenerateRequest& to) { to.stop = in.string(); }},
    {"logprobs",
     [](JsonReader& in, GenerateRequest& to) { to.logprobs = integer(in, "logprobs", 0, infer::kMostLogprobs); }},
    {"grammar",
     [](JsonReader& in, GenerateRequest& to) {
       set_schema(to, "");
       to.grammar = in.string();
       if (to.grammar.empty()) fail(ErrorKind::kUsage, "parameter 'grammar': it is empty");
     }},
    {"json_schema", [](JsonReader& in, GenerateRequest& to) { set_schema(to, in.raw()); }},
    {"response_format", read_response_format},
};

void read_parameters(JsonReader& in, GenerateRequest& to) {
  in.object([&](const std::string& key) {
    const auto* const found = std::ranges::find(kParameters, key, &Parameter::name);
    if (found == std::end(kParameters)) {
      std::vector<std::string_view> names;
      for (const Parameter& parameter : kParameters) names.emplace_back(parameter.name);
      fail(ErrorKind::kUsage, "there is no parameter '{}'; there are {}", key.substr(0, 40), fmt::join(names, ", "));
    }
    found->read(in, to);
  });
}

}  // namespace

GenerateRequest parse_generate_request(std::string_view body) {
  JsonReader in(body);
  GenerateRequest request;
  bool prompt = false;
  in.object([&](const std::string& key) {
    if (key == "id") {
      request.id = in.string();
    } else if (key == "text_input") {
      prompt = true;
      request.prompt = in.string();
    } else if (key == "parameters") {
      read_parameters(in, request);
    } else {
      fail(ErrorKind::kUsage, "there is no key '{}' here; there are id, text_input and parameters", key.substr(0, 40));
    }
  });
  in.end();
  if (!prompt) fail(ErrorKind::kUsage, "the request has no 'text_input'");
  return request;
}

}  // namespace mlx::serve
