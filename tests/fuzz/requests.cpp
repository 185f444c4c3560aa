// Bodies of requests in the forms of OpenAI, and what is made of a model's texts: each body is refused or read, and a
// text is shown and its calls are found the same, whatever pieces it comes in.
#include "base/json.h"
#include "fuzz.h"
#include "serve/encoded_body.h"
#include "serve/infer_request.h"
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

// The JSON and the bytes of tensors behind it.
void tensors(const std::string& source, std::size_t json) {
  infer::Signature signature;
  signature.takes = infer::Takes::kRows;
  signature.outputs = {{"label", "BYTES", {-1}}};
  for (const DataAs as : {DataAs::kFloats, DataAs::kText}) {
    fuzz::errors_are_fine([&] {
      const InferRequest request = parse_infer_request(source, json, signature, as);
      for (const InputTensor& tensor : request.inputs) {
        if (as == DataAs::kText) (void)Json::parse(JsonReader(request.text, tensor.data).raw());
        fuzz::require(as == DataAs::kFloats || tensor.values.empty(), "data is read in one form");
      }
    });
  }
}

// A compressed body never becomes more than it may.
void compressed(const std::string& source) {
  constexpr std::size_t kMost = 4096;
  fuzz::errors_are_fine(
      [&] { fuzz::require(decoded_body("gzip", source, kMost).size() <= kMost, "a body is bounded"); });
  fuzz::errors_are_fine(
      [&] { fuzz::require(decoded_body("gzip", "\x1f\x8b" + source, kMost).size() <= kMost, "a body is bounded"); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t first = input.byte() % 16 + 1, second = input.byte() % 16 + 1;
  const std::string source(as_text(input.rest()));
  bodies(source);
  compressed(source);
  tensors(source, std::min<std::size_t>(source.size(), first * 16 + second));
  tensors(source, source.rfind('}') + 1);
  for (const bool tagged : {false, true}) {
    std::size_t calls = 0, same = 0;
    const std::string text = shown(source, first, tagged, calls);
    fuzz::require(shown(source, second, tagged, same) == text && same == calls, "pieces change nothing");
  }
  return 0;
}
