// See tool_calls.h.
#include "serve/protocols/tool_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "serve/protocols/visible_text.h"

namespace mlx::serve {
namespace {

constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>";
constexpr std::size_t kMostTools = 128;

const std::string& name_of(const Json& tool) {
  return tool["function"]["name"].get_ref<const std::string&>();
}

// A schema that becomes a part of another one: what it refers to stands below `at` there.
void move_references(Json& schema, const std::string& at) {
  if (schema.is_object()) {
    for (auto& [key, value] : schema.items()) {
      if (key == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with("#"))
        value = "#" + at + value.get_ref<const std::string&>().substr(1);
      else
        move_references(value, at);
    }
  } else if (schema.is_array()) {
    for (Json& value : schema) move_references(value, at);
  }
}

Json schema_of_call(const Json& tool, const std::string& key, const std::string& at) {
  Json parameters = {{"type", "object"}};
  if (const auto found = tool["function"].find("parameters"); found != tool["function"].end() && !found->empty()) {
    parameters = *found;
    move_references(parameters, at + "/properties/" + key);
  }
  return {{"type", "object"},
          {"properties", {{"name", {{"const", name_of(tool)}}}, {key, std::move(parameters)}}},
          {"required", Json::array({"name", key})},
          {"additionalProperties", false}};
}

}  // namespace

Tools tools_of(const Json& list, const infer::Chat& chat) {
  if (!list.is_array() || list.size() > kMostTools)
    fail(ErrorKind::kUsage, "'tools': expected a list of at most {} tools", kMostTools);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& tool = list[i];
    const bool function = tool.is_object() && tool.value("type", Json("function")) == "function" &&
                          tool.contains("function") && tool["function"].is_object();
    if (!function || !tool["function"].contains("name") || !tool["function"]["name"].is_string())
      fail(ErrorKind::kUsage,
           "'tools': tool {}: expected {{\"type\": \"function\", \"function\": {{\"name\": \"…\"}}}}", i);
  }
  return {list, chat.writes(kBegin)};
}

TextShape forced_call(const Tools& tools, const std::string& name) {
  Json either = Json::array();
  const std::string key = tools.tagged ? "arguments" : "parameters";
  for (const Json& tool : tools.list) {
    if (!name.empty() && name_of(tool) != name) continue;
    either.push_back(schema_of_call(tool, key, fmt::format("/anyOf/{}", either.size())));
  }
  if (either.empty()) fail(ErrorKind::kUsage, "'tool_choice': there is no tool '{}'", name);
  TextShape shape{.kind = TextShape::Kind::kSchema, .source = Json{{"anyOf", either}}.dump(), .what = "'tools'"};
  if (tools.tagged) {
    shape.before = std::string(kBegin) + "\n";
    shape.after = "\n" + std::string(kEnd);
  }
  return shape;
}

ToolCallReader::ToolCallReader(const Tools& tools) : none_(tools.empty()), tagged_(tools.tagged) {
  for (const Json& tool : tools.list) names_.push_back(name_of(tool));
}

bool ToolCallReader::read_call(std::string_view json, std::vector<ToolCall>& calls) const {
  try {
    const Json call = parse_json(json, "a call");
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return false;
    const std::string& name = call["name"].get_ref<const std::string&>();
    if (!tagged_ && std::ranges::find(names_, name) == names_.end()) return false;
    for (const char* const key : {"arguments", "parameters"}) {
      const auto found = call.find(key);
      if (found == call.end()) continue;
      if (!found->is_object()) return false;
      calls.push_back({name, found->dump()});
      return true;
    }
    if (!tagged_) return false;
    calls.push_back({name, "{}"});
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string ToolCallReader::add(std::string_view text, std::vector<ToolCall>& calls) {
  if (none_ || plain_) return std::string(text);
  held_ += text;
  if (tagged_) return add_tagged(calls);
  const std::string_view seen = trimmed(held_);
  if (seen.empty() || seen.front() == '{') return {};
  plain_ = true;
  return std::exchange(held_, {});
}

std::string ToolCallReader::add_tagged(std::vector<ToolCall>& calls) {
  std::string shown;
  const auto show = [&](std::size_t size) {
    const std::string text = held_.substr(0, size);
    held_.erase(0, size);
    if (behind_call_ && trimmed(text).empty()) return;
    shown += text;
    behind_call_ = false;
  };
  for (;;) {
    const std::size_t begin = held_.find(kBegin);
    if (begin == std::string::npos) {
      const std::size_t size = held_.size() - begins_at_end(held_, kBegin);
      if (!behind_call_ || !trimmed(std::string_view(held_).substr(0, size)).empty()) show(size);
      return shown;  // blanks wait: another call may follow
    }
    show(begin);
    const std::size_t end = held_.find(kEnd);
    if (end == std::string::npos) return shown;
    if (read_call(trimmed(held_.substr(kBegin.size(), end - kBegin.size())), calls)) {
      held_.erase(0, end + kEnd.size());
      behind_call_ = true;
    } else {
      behind_call_ = false;
      show(end + kEnd.size());
    }
  }
}

std::string ToolCallReader::rest(std::vector<ToolCall>& calls) {
  std::string_view json = trimmed(held_);
  const bool open = tagged_ && json.starts_with(kBegin);
  if (open) json = trimmed(json.substr(kBegin.size()));
  const bool call = !none_ && (open || (!tagged_ && !plain_)) && read_call(json, calls);
  if (call || (behind_call_ && json.empty())) held_.clear();
  return std::exchange(held_, {});
}

}  // namespace mlx::serve
