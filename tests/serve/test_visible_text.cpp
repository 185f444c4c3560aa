// What a client sees of a text: stops across tokens, markers, and calls of tools in both forms, however the text is cut
// into pieces.
#include <doctest/doctest.h>

#include "serve/protocols/tool_calls.h"
#include "serve/protocols/visible_text.h"

namespace mlx::serve {
namespace {

struct Seen {
  std::string text;
  std::optional<std::string> stop;
  bool ended = false;
};

// Each piece is a token; the token 99 ends the text.
Seen seen(const std::vector<std::string>& pieces, std::vector<std::string> stops, bool end = false) {
  const std::set<std::int32_t> ends = {99};
  const auto piece = [&](std::int32_t token, bool /*first*/) { return pieces[static_cast<std::size_t>(token)]; };
  VisibleText text(piece, ends, std::move(stops));
  Seen out;
  for (std::size_t i = 0; i < pieces.size() && !text.ended(); ++i) out.text += text.add(static_cast<std::int32_t>(i));
  if (end && !text.ended()) out.text += text.add(99);
  out.text += text.rest();
  out.stop = text.stop();
  out.ended = text.ended();
  return out;
}

TEST_CASE("visible text: stops are cut off wherever the tokens end") {
  CHECK(seen({"ab", "cd"}, {}).text == "abcd");
  CHECK_FALSE(seen({"ab", "cd"}, {}).ended);
  CHECK(seen({"ab", "cd", "ef"}, {"bcde"}).text == "a");
  CHECK(seen({"ab", "cd", "ef"}, {"bcde"}).stop == "bcde");
  CHECK(seen({"ab", "cd", "xx"}, {"bcde"}).text == "abcdxx");
  CHECK(seen({"ab", "cd"}, {"bcde"}).text == "abcd");             // what was held back comes at the end
  CHECK(seen({"ab", "cd"}, {"bcde"}, true).text == "abcd");       // also where a token ends the text
  CHECK(seen({"abcd"}, {"cd", "bc"}).stop == "bc");               // the first one in the text
  CHECK(seen({"a", "a", "a", "b", "!"}, {"aab"}).text == "a");    // a beginning within another
  CHECK(seen({"\xc3", "\xa4", "b"}, {"\xc3\xa4"}).text.empty());  // of a character that two tokens make
  CHECK(seen({"\xc3"}, {}).text == "\xef\xbf\xbd");
}

Tools some(bool tagged) {
  return {Json::parse(R"([{"type":"function","function":{"name":"f"}}])"), tagged};
}

struct Read {
  std::string text;
  std::vector<ToolCall> calls;
};

// The same, whatever the size of the pieces.
Read read(const std::string& text, const Tools& tools) {
  std::optional<Read> first;
  for (std::size_t size = text.size(); size > 0; --size) {
    CAPTURE(size);
    ToolCallReader reader(tools);
    Read out;
    for (std::size_t at = 0; at < text.size(); at += size) out.text += reader.add(text.substr(at, size), out.calls);
    out.text += reader.rest(out.calls);
    if (!first) first = out;
    CHECK(out.text == first->text);
    CHECK(out.calls.size() == first->calls.size());
  }
  return first.value_or(Read{});
}

TEST_CASE("tools: calls between tags, and those that are the whole text") {
  const std::string call = R"({"name": "f", "arguments": {"a": [1, "</b>"]}})";
  const Read tagged =
      read("Let me.\n<tool_call>\n" + call + "\n</tool_call>\n<tool_call>" + call + "</tool_call>\n", some(true));
  CHECK(tagged.text == "Let me.\n");
  REQUIRE(tagged.calls.size() == 2);
  CHECK(tagged.calls[1].name == "f");
  CHECK(Json::parse(tagged.calls[0].arguments) == Json::parse(R"({"a": [1, "</b>"]})"));
  CHECK(read("<tool_call>" + call, some(true)).calls.size() == 1);  // the end was a token that is not shown
  CHECK(read("<tool_call>no</tool_call> x", some(true)).text == "<tool_call>no</tool_call> x");
  CHECK(read("a <tool", some(true)).text == "a <tool");
  CHECK(read(call, some(true)).text == call);
  const Read bare = read("\n" + call, some(false));
  CHECK(bare.text.empty());
  CHECK(bare.calls.size() == 1);
  CHECK(read(R"({"name": "g", "parameters": {}})", some(false)).calls.empty());  // no tool of this name
  CHECK(read(R"({"name": "f", "parameters": {}})", some(false)).calls.size() == 1);
  CHECK(read("{not JSON", some(false)).text == "{not JSON");
  CHECK(read("So: " + call, some(false)).text == "So: " + call);
  CHECK(read(call, Tools{}).text == call);
}

}  // namespace
}  // namespace mlx::serve
