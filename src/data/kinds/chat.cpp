// Reads messages as the services for fine-tuning take them, {"role", "content"}, or as ShareGPT has them, {"from",
// "value"}.

#include "data/kinds/chat.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/json.h"

namespace mlx::data {
namespace {

constexpr std::string_view kBegin = "<|im_start|>", kEnd = "<|im_end|>";

struct Role {
  std::string_view name;  // in "role", and in the text
  std::string_view from;  // ShareGPT's name; "" if it has none
};
constexpr std::array<Role, 5> kRoles = {
    {{"system", "system"}, {"developer", ""}, {"user", "human"}, {"assistant", "gpt"}, {"tool", "tool"}}};
constexpr std::string_view kAssistant = "assistant";

const Json& value_at(const Json& message, const char* key) {
  const auto found = message.find(key);
  if (found == message.end()) fail(ErrorKind::kCorrupt, "no \"{}\"", key);
  return *found;
}

std::string role_of(const Json& message, bool sharegpt) {
  const char* const key = sharegpt ? "from" : "role";
  const Json& value = value_at(message, key);
  const std::string written = value.is_string() ? value.get<std::string>() : canonical(value);
  for (const Role& role : kRoles)
    if (value.is_string() && !written.empty() && written == (sharegpt ? role.from : role.name))
      return std::string(role.name);
  fail(ErrorKind::kCorrupt, "\"{}\" is '{}', expected {}", key, written.substr(0, 40),
       sharegpt ? "system, human, gpt or tool" : "system, developer, user, assistant or tool");
}

// A list of parts has one text each.
std::string message_content(const Json& message, bool sharegpt) {
  const char* const key = sharegpt ? "value" : "content";
  const Json& value = value_at(message, key);
  if (value.is_string()) return value.get<std::string>();
  std::string out;
  bool all_text = value.is_array();
  for (const Json& part : value) {
    all_text = all_text && part.is_object() && part.value("type", Json()) == "text" && part.contains("text") &&
               part["text"].is_string();
    if (!all_text) break;
    out += part["text"].get<std::string>();
  }
  if (!all_text) fail(ErrorKind::kCorrupt, "\"{}\" is not text", key);
  return out;
}

// "weight": 0 leaves out what an assistant says.
bool is_learned(const Json& message, const std::string& role) {
  const auto weight = message.find("weight");
  if (weight == message.end()) return role == kAssistant;
  if (*weight != 0 && *weight != 1) fail(ErrorKind::kCorrupt, "\"weight\" is {}, expected 0 or 1", canonical(*weight));
  return role == kAssistant && *weight == 1;
}

void add_message(const Json& message, std::vector<ChatPart>& parts) {
  if (!message.is_object()) fail(ErrorKind::kCorrupt, "expected an object");
  const bool sharegpt = message.contains("from") && !message.contains("role");
  const std::string role = role_of(message, sharegpt), content = message_content(message, sharegpt);
  // A user who writes a mark could otherwise speak as somebody else.
  for (const std::string_view mark : {kBegin, kEnd})
    if (content.find(mark) != std::string::npos) fail(ErrorKind::kCorrupt, "the text contains the mark {}", mark);
  parts.push_back({fmt::format("{}{}\n", kBegin, role), false});
  parts.push_back({fmt::format("{}{}", content, kEnd), is_learned(message, role)});
  parts.push_back({"\n", false});
}

}  // namespace

std::vector<ChatPart> chat_parts(std::string_view messages) {
  const Json list = parse_json(messages, "messages");
  if (!list.is_array()) fail(ErrorKind::kCorrupt, "expected a list of messages");
  std::vector<ChatPart> parts;
  std::size_t number = 0;
  for (const Json& message : list) {
    ++number;
    try {
      add_message(message, parts);
    } catch (const Error& error) {
      fail(error.kind, "message {}: {}", number, error.message);
    }
  }
  return parts;
}

}  // namespace mlx::data
