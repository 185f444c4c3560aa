// Tools: how a model is told to call them, and calls found in what it writes. Two forms are known: Hermes', JSON
// between <tool_call> and </tool_call>, where the chat template writes these words; and that of Llama 3, a text that is
// one JSON object with the name of a tool. Used by the protocols of chats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "infer/chat.h"
#include "serve/text_grammars.h"

namespace mlx::serve {

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object
};

// As OpenAI has them: {"type":"function","function":{"name":…,"parameters":SCHEMA}}.
struct Tools {
  Json list = Json::array();
  bool tagged = false;  // Hermes' form
  bool empty() const { return list.empty(); }
};

// Throws kUsage for what is no list of tools.
Tools tools_of(const Json& list, const infer::Chat& chat);
// What a text must be like that calls one of them, or the one of this name. kUsage if there is none.
TextShape forced_call(const Tools& tools, const std::string& name);

class ToolCallReader {
 public:
  explicit ToolCallReader(const Tools& tools);

  // What may be shown of a text that goes on with this; calls that are complete are added to `calls`.
  std::string add(std::string_view text, std::vector<ToolCall>& calls);
  std::string rest(std::vector<ToolCall>& calls);  // at the text's end

 private:
  bool read_call(std::string_view json, std::vector<ToolCall>& calls) const;
  std::string add_tagged(std::vector<ToolCall>& calls);

  const bool none_, tagged_;
  std::vector<std::string> names_;
  std::string held_;
  bool plain_ = false;        // Llama's form: the text is no call
  bool behind_call_ = false;  // blanks between calls are not shown
};

}  // namespace mlx::serve
