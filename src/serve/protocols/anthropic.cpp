// Anthropic's messages, as far as a language model of text goes. Source: the reference of Anthropic's Messages API and
// of its streams.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "serve/protocols/asked_text.h"
#include "serve/protocols/json_fields.h"
#include "serve/protocols/openai.h"
#include "serve/protocols/openai_request.h"
#include "serve/protocols/tokens.h"

namespace mlx::serve {
namespace {

struct MessagesRequest {
  std::string model;
  AskedChat chat{};
  Json system = nullptr, messages = nullptr, tools = nullptr, tool_choice = nullptr;
  bool stream = false;
};

// A block of a message's content. Those of calls and results stand for messages of their own in templates.
void add_block(const Json& block, const std::string& role, const std::string& place, Json& message, Json& results) {
  const Json type = object_of(block, place).value("type", Json());
  if (type == "text") {
    std::string& content = message["content"].get_ref<std::string&>();
    content += (content.empty() ? "" : "\n") + text_of(block.value("text", Json()), place + ".text");
  } else if (type == "tool_use" && role == "assistant") {
    message["tool_calls"].push_back(
        {{"id", text_of(block.value("id", Json()), place + ".id")},
         {"type", "function"},
         {"function",
          {{"name", text_of(block.value("name", Json()), place + ".name")},
           {"arguments", object_of(block.value("input", Json::object()), place + ".input")}}}});
  } else if (type == "tool_result" && role == "user") {
    Json result = {{"role", "tool"}, {"content", block.value("content", Json(""))}};
    result["tool_call_id"] = text_of(block.value("tool_use_id", Json()), place + ".tool_use_id");
    results.push_back(template_message(result, place));
  } else if (type != "thinking" && type != "redacted_thinking") {
    refuse_field(place, "a block of the type text, tool_use or tool_result", block);
  }
}

void add_messages(const Json& messages, Json& to) {
  for (std::size_t i = 0; i < list_of(messages, "messages").size(); ++i) {
    const std::string place = fmt::format("messages[{}]", i);
    const Json& given = object_of(messages[i], place);
    const Json role = given.value("role", Json()), content = given.value("content", Json());
    if (role != "user" && role != "assistant") refuse_field(place + ".role", "user or assistant", role);
    Json message = {{"role", role}, {"content", ""}}, results = Json::array();
    if (content.is_string()) {
      message["content"] = content;
    } else {
      for (const Json& block : list_of(content, place + ".content"))
        add_block(block, role.get<std::string>(), place + ".content", message, results);
    }
    for (Json& result : results) to.push_back(std::move(result));
    if (results.empty() || message["content"] != "") to.push_back(std::move(message));
  }
}

void set_tools(const MessagesRequest& request, AskedChat& to) {
  if (!request.tools.is_null()) {
    for (const Json& tool : list_of(request.tools, "tools")) {
      Json function = {{"name", text_of(object_of(tool, "tools").value("name", Json()), "tools")}};
      if (tool.contains("description")) function["description"] = text_of(tool["description"], "tools");
      function["parameters"] = object_of(tool.value("input_schema", Json::object()), "tools");
      to.tools.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
  }
  if (request.tool_choice.is_null()) return;
  const Json type = object_of(request.tool_choice, "tool_choice").value("type", Json());
  if (type == "any") {
    to.forced_tool = "";
  } else if (type == "tool") {
    to.forced_tool = text_of(request.tool_choice.value("name", Json()), "tool_choice");
  } else if (type == "none") {
    to.may_call = false;
  } else if (type != "auto") {
    refuse_field("tool_choice", "a type of auto, any, tool or none", request.tool_choice);
  }
  if (to.forced_tool && to.tools.empty()) fail(ErrorKind::kUsage, "'tool_choice' needs 'tools'");
}

struct MessagesField {
  const char* name;
  void (*read)(const Json& value, MessagesRequest& to);
};
const MessagesField kMessagesFields[] = {
    {"model", [](const Json& v, MessagesRequest& to) { to.model = text_of(v, "model"); }},
    {"max_tokens",
     [](const Json& v, MessagesRequest& to) { to.chat.text.max_tokens = integer_of(v, "max_tokens", 1, 1 << 24); }},
    {"system", [](const Json& v, MessagesRequest& to) { to.system = v; }},
    {"messages", [](const Json& v, MessagesRequest& to) { to.messages = v; }},
    {"tools", [](const Json& v, MessagesRequest& to) { to.tools = v; }},
    {"tool_choice", [](const Json& v, MessagesRequest& to) { to.tool_choice = v; }},
    {"stream", [](const Json& v, MessagesRequest& to) { to.stream = flag_of(v, "stream"); }},
    {"stop_sequences",
     [](const Json& v, MessagesRequest& to) {
       to.chat.text.stops = texts_of(list_of(v, "stop_sequences"), "stop_sequences", 64);
     }},
    {"temperature",
     [](const Json& v, MessagesRequest& to) { to.chat.text.sampling.temperature = number_of(v, "temperature", 0, 2); }},
    {"top_p", [](const Json& v, MessagesRequest& to) { to.chat.text.sampling.top_p = number_of(v, "top_p", 1e-9, 1); }},
    {"top_k",
     [](const Json& v, MessagesRequest& to) { to.chat.text.sampling.top_k = integer_of(v, "top_k", 0, 1 << 24); }},
    {"metadata", [](const Json& /*v*/, MessagesRequest& /*to*/) {}},
    {"service_tier", [](const Json& /*v*/, MessagesRequest& /*to*/) {}},
};

MessagesRequest parse_messages(std::string_view body) {
  MessagesRequest out;
  const Json json = body_of(body);
  for (const auto& [key, value] : json.items()) {
    const auto* const field = std::ranges::find(kMessagesFields, key, &MessagesField::name);
    if (field == std::end(kMessagesFields))
      fail(ErrorKind::kUsage, "there is no key '{}' here", printable(key.substr(0, 40)));
    if (!value.is_null()) field->read(value, out);
  }
  if (!out.chat.text.max_tokens) fail(ErrorKind::kUsage, "the request has no 'max_tokens'");
  if (!out.system.is_null())
    out.chat.messages.push_back(template_message({{"role", "system"}, {"content", out.system}}, "system"));
  add_messages(out.messages, out.chat.messages);
  if (out.messages.empty()) refuse_field("messages", "at least one message", out.messages);
  set_tools(out, out.chat);
  return out;
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class MessagesAnswer final : public TextSink {
 public:
  MessagesAnswer(const MessagesRequest& request, const TextModel& model, std::size_t prompt, ExchangePtr exchange)
      : exchange_(std::move(exchange)), stream_(request.stream), headers_(model.version_header()) {
    message_ = {
        {"id", fresh_id("msg_")},   {"type", "message"},
        {"role", "assistant"},      {"model", request.model.empty() ? public_name(model.spec()) : request.model},
        {"content", Json::array()}, {"stop_reason", nullptr},
        {"stop_sequence", nullptr}, {"usage", {{"input_tokens", prompt}, {"output_tokens", 0}}}};
  }

  void add(std::string text, std::vector<infer::LogProbabilities> /*logprobs*/) override {
    if (open_ != "text") begin_block("text", {{"type", "text"}, {"text", ""}});
    if (stream_) return delta({{"type", "text_delta"}, {"text", std::move(text)}});
    message_["content"].back()["text"].get_ref<std::string&>() += text;
  }

  void call(ToolCall call) override {
    begin_block("tool_use",
                {{"type", "tool_use"}, {"id", fresh_id("toolu_")}, {"name", call.name}, {"input", Json::object()}});
    if (stream_) return delta({{"type", "input_json_delta"}, {"partial_json", std::move(call.arguments)}});
    message_["content"].back()["input"] = Json::parse(call.arguments);
  }

  void end(const TextEnd& end) override {
    const char* const reason = end.why == TextEnd::Why::kToolCalls ? "tool_use"
                               : end.why == TextEnd::Why::kLength  ? "max_tokens"
                               : end.stop                          ? "stop_sequence"
                                                                   : "end_turn";
    const Json usage = {{"input_tokens", end.usage.prompt - end.usage.shared},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", end.usage.shared},
                        {"output_tokens", end.usage.completion}};
    const Json stop = end.stop ? Json(*end.stop) : Json();
    if (stream_) {
      end_block();
      event(
          {{"type", "message_delta"}, {"delta", {{"stop_reason", reason}, {"stop_sequence", stop}}}, {"usage", usage}});
      event({{"type", "message_stop"}});
      return exchange_->end();
    }
    message_["stop_reason"] = reason;
    message_["stop_sequence"] = stop;
    message_["usage"] = usage;
    Reply reply = json_reply(200, json_text(message_));
    reply.headers = headers_;
    exchange_->reply(std::move(reply));
  }

  void failed(const Reply& why) override {
    if (!begun_) return exchange_->reply(why);
    exchange_->write("event: error\ndata: " + kAnthropic.error_body(why) + "\n\n");
    exchange_->end();
  }

 private:
  void begin_block(const std::string& kind, Json block) {
    end_block();
    open_ = kind;
    if (stream_)
      event({{"type", "content_block_start"}, {"index", blocks_}, {"content_block", std::move(block)}});
    else
      message_["content"].push_back(std::move(block));
  }

  void end_block() {
    if (stream_ && begun_ && !open_.empty()) event({{"type", "content_block_stop"}, {"index", blocks_}});
    if (!open_.empty()) ++blocks_;
    open_.clear();
  }

  void delta(Json change) {
    event({{"type", "content_block_delta"}, {"index", blocks_}, {"delta", std::move(change)}});
  }

  void event(const Json& data) {
    if (!std::exchange(begun_, true)) {
      Reply head = event_stream();
      head.headers += headers_;
      exchange_->begin(std::move(head));
      event({{"type", "message_start"}, {"message", message_}});
    }
    exchange_->write(fmt::format("event: {}\ndata: {}\n\n", data["type"].get<std::string>(), json_text(data)));
  }

  const ExchangePtr exchange_;
  const bool stream_;
  const std::string headers_;
  Json message_;
  std::string open_;  // the kind of the last block, if it goes on
  std::size_t blocks_ = 0;
  bool begun_ = false;
};

void messages(const Asked& asked) {
  MessagesRequest request = parse_messages(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  AskedChat chat = std::move(request.chat);
  const MakeSink sinks = [&](std::int64_t /*choice*/, std::size_t prompt) {
    return std::make_unique<MessagesAnswer>(request, model, prompt, asked.exchange);
  };
  ask_chat(model, std::move(chat), asked.exchange, sinks);
}

std::string anthropic_error(const Reply& reply) {
  const char* type = reply.status >= 500 ? "api_error" : "invalid_request_error";
  switch (reply.status) {
    case 401:
      type = "authentication_error";
      break;
    case 403:
      type = "permission_error";
      break;
    case 404:
      type = "not_found_error";
      break;
    case 413:
      type = "request_too_large";
      break;
    case 429:
      type = "rate_limit_error";
      break;
    case 503:
      type = "overloaded_error";
      break;
    default:
      break;
  }
  return json_text({{"type", "error"}, {"error", {{"type", type}, {"message", reply.error}}}});
}

constexpr Route kAnthropicRoutes[] = {{Route::At::kPath, "/v1/messages", "POST", true, Need::kInfer, messages}};

}  // namespace

const Protocol kAnthropic = {"/v1/messages", "", kAnthropicRoutes, anthropic_error};

}  // namespace mlx::serve
