// Bodies of requests in the forms of OpenAI, and what is made of a model's texts: each body is refused or read, and a
// text is shown and its calls are found the same, whatever pieces it comes in.
#include "base/json.h"
#include "fuzz.h"
#include "serve/protocols/json_fields.h"
#include "serve/protocols/openai_request.h"
#include "serve/protocols/tool_calls.h"
#include "serve/protocols/visible_text.h"

using namespace mlx;
using namespace mlx::serve;

namespace {

void bodies(const std::string& source) {
  fuzz::errors_are_fine([&] {
    const OpenAiRequest request = parse_chat(source);
    fuzz::require(!request.chat.messages.empty(), "a chat has messages");
    for (const Json& message : request.chat.messages)
      fuzz::require(message["content"].is_string(), "a message's content is a text");
    fuzz::require(request.chat.text.choices >= 1, "there is a choice");
  });
  fuzz::errors_are_fine([&] { (void)parse_completion(source); });
}

std::string shown(const std::string& text, std::size_t size, bool tagged, std::size_t& count) {
  ToolCallReader reader({Json::parse(R"([{"type":"function","function":{"name":"f"}}])"), tagged});
  std::vector<ToolCall> calls;
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) out += reader.add(text.substr(at, size), calls);
  out += reader.rest(calls);
  for (const ToolCall& call : calls) fuzz::require(Json::parse(call.arguments).is_object(), "arguments are an object");
  count = calls.size();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t first = input.byte() % 16 + 1, second = input.byte() % 16 + 1;
  const std::string source(as_text(input.rest()));
  bodies(source);
  for (const bool tagged : {false, true}) {
    std::size_t calls = 0, same = 0;
    const std::string text = shown(source, first, tagged, calls);
    fuzz::require(shown(source, second, tagged, same) == text && same == calls, "pieces change nothing");
  }
  return 0;
}
