// A key is a row: its name and how it is read.
#include "serve/protocols/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "serve/protocols/json_fields.h"

namespace mlx::serve {
namespace {

constexpr std::int64_t kMostAsked = 1 << 24, kDefaultTokens = 16;
constexpr std::size_t kMostStops = 16, kMostBiases = 10'000, kMostVariables = 64;

void set_shape(OpenAiRequest& to, TextShape shape) {
  if (to.chat.text.shape.kind != TextShape::Kind::kAny)
    fail(ErrorKind::kUsage, "'grammar' and 'response_format' do not go together");
  to.chat.text.shape = std::move(shape);
}

void read_response_format(const Json& value, OpenAiRequest& to) {
  const Json type = object_of(value, "response_format").value("type", Json());
  if (type == "text") return;
  TextShape shape{.kind = TextShape::Kind::kSchema, .source = R"({"type":"object"})", .what = "'response_format'"};
  if (type == "json_schema") {
    const Json inner = value.value("json_schema", Json());
    if (!inner.is_object() || !inner.contains("schema"))
      fail(ErrorKind::kUsage, "'response_format': there is no 'schema' in its 'json_schema'");
    shape.source = inner["schema"].dump();
  } else if (type != "json_object") {
    fail(ErrorKind::kUsage, "'response_format': expected a 'type' of text, json_object or json_schema");
  }
  set_shape(to, std::move(shape));
}

void read_bias(const Json& value, OpenAiRequest& to) {
  for (const auto& [key, bias] : object_of(value, "logit_bias").items()) {
    const bool number = !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!number || value.size() > kMostBiases)
      refuse_field("logit_bias", fmt::format("at most {} numbers of tokens", kMostBiases), key);
    to.chat.text.sampling.bias.emplace_back(std::stoi(key), number_of(bias, "logit_bias", -100, 100));
  }
}

void read_tool_choice(const Json& value, OpenAiRequest& to) {
  if (value == "auto") return;
  if (value == "none") {
    to.chat.may_call = false;
  } else if (value == "required") {
    to.chat.forced_tool = "";
  } else {
    const bool named = value.is_object() && value.value("type", Json()) == "function" && value.contains("function") &&
                       value["function"].is_object() && value["function"].contains("name");
    if (!named)
      refuse_field("tool_choice", R"(none, auto, required or {"type": "function", "function": {"name": "…"}})", value);
    to.chat.forced_tool = text_of(value["function"]["name"], "tool_choice");
    if (to.chat.forced_tool->empty()) refuse_field("tool_choice", "the name of a tool", value);
  }
}

void read_messages(const Json& value, OpenAiRequest& to) {
  if (list_of(value, "messages").empty()) refuse_field("messages", "at least one message", value);
  for (std::size_t i = 0; i < value.size(); ++i)
    to.chat.messages.push_back(template_message(value[i], fmt::format("messages[{}]", i)));
}

struct Field {
  const char* name;
  void (*read)(const Json& value, OpenAiRequest& to);
};

void ignore_field(const Json& /*value*/, OpenAiRequest& /*to*/) {}

const Field kTextFields[] = {
    {"model", [](const Json& v, OpenAiRequest& to) { to.model = text_of(v, "model"); }},
    {"stream", [](const Json& v, OpenAiRequest& to) { to.stream = flag_of(v, "stream"); }},
    {"stream_options",
     [](const Json& v, OpenAiRequest& to) {
       to.include_usage = flag_of(object_of(v, "stream_options").value("include_usage", Json(false)), "include_usage");
     }},
    {"n", [](const Json& v, OpenAiRequest& to) { to.chat.text.choices = integer_of(v, "n", 1, kMostChoices); }},
    {"max_tokens",
     [](const Json& v, OpenAiRequest& to) { to.chat.text.max_tokens = integer_of(v, "max_tokens", 0, kMostAsked); }},
    {"seed",
     [](const Json& v, OpenAiRequest& to) {
       constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
       to.chat.text.sampling.seed = static_cast<std::uint64_t>(integer_of(v, "seed", -kMost, kMost));
       to.chat.text.seeded = true;
     }},
    {"stop", [](const Json& v, OpenAiRequest& to) { to.chat.text.stops = texts_of(v, "stop", kMostStops); }},
    {"temperature",
     [](const Json& v, OpenAiRequest& to) {
       to.chat.text.sampling.temperature = number_of(v, "temperature", 0, 1000);
     }},
    {"top_p",
     [](const Json& v, OpenAiRequest& to) {  // 0 stands for the likeliest one
       to.chat.text.sampling.top_p = std::max(number_of(v, "top_p", 0, 1), std::numeric_limits<double>::min());
     }},
    {"top_k",
     [](const Json& v, OpenAiRequest& to) {  // -1: all
       to.chat.text.sampling.top_k = std::max<std::int64_t>(0, integer_of(v, "top_k", -1, kMostAsked));
     }},
    {"min_p", [](const Json& v, OpenAiRequest& to) { to.chat.text.sampling.min_p = number_of(v, "min_p", 0, 1); }},
    {"typical_p",
     [](const Json& v, OpenAiRequest& to) { to.chat.text.sampling.typical = number_of(v, "typical_p", 1e-6, 1); }},
    {"repetition_penalty",
     [](const Json& v, OpenAiRequest& to) {
       to.chat.text.sampling.repetition = number_of(v, "repetition_penalty", infer::kLeastRepetition, 1000);
     }},
    {"frequency_penalty",
     [](const Json& v, OpenAiRequest& to) {
       to.chat.text.sampling.frequency = number_of(v, "frequency_penalty", -2, 2);
     }},
    {"presence_penalty",
     [](const Json& v, OpenAiRequest& to) {
       to.chat.text.sampling.presence = number_of(v, "presence_penalty", -2, 2);
     }},
    {"logit_bias", read_bias},
    {"response_format", read_response_format},
    {"grammar",
     [](const Json& v, OpenAiRequest& to) {
       set_shape(to, {.kind = TextShape::Kind::kGbnf, .source = text_of(v, "grammar"), .what = "'grammar'"});
     }},
    // What says nothing to a server of one's own.
    {"user", ignore_field},
    {"metadata", ignore_field},
    {"store", ignore_field},
    {"service_tier", ignore_field},
    {"safety_identifier", ignore_field},
    {"prompt_cache_key", ignore_field},
};

const Field kCompletionFields[] = {
    {"prompt", [](const Json& v, OpenAiRequest& to) { to.prompt = v; }},
    {"logprobs", [](const Json& v,
                    OpenAiRequest& to) { to.chat.text.logprobs = integer_of(v, "logprobs", 0, infer::kMostLogprobs); }},
    {"best_of",
     [](const Json& v, OpenAiRequest& /*to*/) {
       if (v != 1) refuse_field("best_of", "1: there is no choice among texts", v);
     }},
    {"echo",
     [](const Json& v, OpenAiRequest& /*to*/) {
       if (flag_of(v, "echo")) refuse_field("echo", "false: the prompt is not given back", v);
     }},
    {"suffix",
     [](const Json& v, OpenAiRequest& /*to*/) {
       if (v != "") refuse_field("suffix", "nothing: text is not filled in", v);
     }},
};

const Field kChatFields[] = {
    {"messages", read_messages},
    {"max_completion_tokens",
     [](const Json& v, OpenAiRequest& to) {
       to.chat.text.max_tokens = integer_of(v, "max_completion_tokens", 0, kMostAsked);
     }},
    {"logprobs",
     [](const Json& v, OpenAiRequest& to) {
       if (flag_of(v, "logprobs")) to.chat.text.logprobs = std::max<std::int64_t>(0, to.chat.text.logprobs);
     }},
    {"top_logprobs",
     [](const Json& v, OpenAiRequest& to) {
       to.chat.text.logprobs = integer_of(v, "top_logprobs", 0, infer::kMostLogprobs);
     }},
    {"tools", [](const Json& v, OpenAiRequest& to) { to.chat.tools = list_of(v, "tools"); }},
    {"tool_choice", read_tool_choice},
    {"chat_template_kwargs",
     [](const Json& v, OpenAiRequest& to) {
       to.chat.variables = object_of(v, "chat_template_kwargs");
       if (v.size() > kMostVariables)
         fail(ErrorKind::kUsage, "'chat_template_kwargs': expected at most {} names, got {}", kMostVariables, v.size());
     }},
    {"parallel_tool_calls", ignore_field},
    {"reasoning_effort", ignore_field},
    {"verbosity", ignore_field},
};

void read_fields(const Json& body, std::span<const Field> more, OpenAiRequest& to) {
  for (const auto& [key, value] : body.items()) {
    const auto common = std::ranges::find(kTextFields, key, &Field::name);
    const auto own = std::ranges::find(more, key, &Field::name);
    if (common == std::end(kTextFields) && own == more.end())
      fail(ErrorKind::kUsage, "there is no key '{}' here", printable(key.substr(0, 40)));
    if (value.is_null()) continue;  // as if it was not there
    common != std::end(kTextFields) ? common->read(value, to) : own->read(value, to);
  }
}

// A text, or a list of parts that are texts.
std::string content_text(const Json& content, const std::string& place) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse_field(place + ".content", "a text or a list of parts", content);
  std::string out;
  for (const Json& part : content) {
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    const bool text = (type == "text" || type == "refusal") && part.contains(type.get_ref<const std::string&>());
    if (!text) refuse_field(place + ".content", "parts of the type text: the model reads nothing else", part);
    out += (out.empty() ? "" : "\n") + text_of(part[type.get_ref<const std::string&>()], place + ".content");
  }
  return out;
}

Json template_calls(const Json& calls, const std::string& place) {
  Json out = list_of(calls, place);
  for (Json& call : out) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      refuse_field(place, "calls of functions", call);
    Json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string()) refuse_field(place, "a name", call);
    const auto arguments = function.find("arguments");
    if (arguments == function.end()) continue;
    if (arguments->is_string()) {
      const std::string written = arguments->get<std::string>();
      *arguments = written.empty() ? Json::object() : parse_json(written, place + ".arguments");
    }
    (void)object_of(*arguments, place + ".arguments");
  }
  return out;
}

}  // namespace

Json template_message(const Json& message, const std::string& place) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
    refuse_field(place, "an object with a 'role'", message);
  Json out = message;
  const std::string role = message["role"].get<std::string>();
  constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
  if (std::ranges::find(kRoles, role) == kRoles.end())
    refuse_field(place + ".role", "system, developer, user, assistant or tool", message["role"]);
  if (role == "developer") out["role"] = "system";
  const bool calls = message.contains("tool_calls") && !message["tool_calls"].is_null();
  if (!message.contains("content") && !calls) refuse_field(place, "a 'content'", message);
  out["content"] = content_text(message.value("content", Json()), place);
  if (calls) out["tool_calls"] = template_calls(message["tool_calls"], place + ".tool_calls");
  for (const char* const key : {"tool_calls", "name", "refusal"})
    if (const auto found = out.find(key); found != out.end() && found->is_null()) out.erase(found);
  return out;
}

OpenAiRequest parse_completion(std::string_view body) {
  OpenAiRequest out;
  out.chat.text.max_tokens = kDefaultTokens;
  read_fields(body_of(body), kCompletionFields, out);
  if (out.prompt.is_null()) fail(ErrorKind::kUsage, "the request has no 'prompt'");
  return out;
}

OpenAiRequest parse_chat(std::string_view body) {
  OpenAiRequest out;
  const Json json = body_of(body);
  read_fields(json, kChatFields, out);
  if (out.chat.messages.empty()) fail(ErrorKind::kUsage, "the request has no 'messages'");
  if (json.value("logprobs", Json()) != true) {
    if (out.chat.text.logprobs > 0) fail(ErrorKind::kUsage, "'top_logprobs' needs 'logprobs': true");
    out.chat.text.logprobs = infer::kNoLogprobs;
  }
  if (out.chat.tools.empty() && out.chat.forced_tool) fail(ErrorKind::kUsage, "'tool_choice' needs 'tools'");
  return out;
}

}  // namespace mlx::serve
