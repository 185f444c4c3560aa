// Tokenizers: text comes back as it was, vocabularies depend on the text's characters alone, and what is not theirs is
// named.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer.h"

using namespace mlx;
using data::Tokenizer;

namespace {

std::string complaint(auto&& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind == kind);
    return error.message;
  }
  return "no error";
}

}  // namespace

TEST_CASE("bytes: every text round-trips, each byte is a token") {
  const Tokenizer tokenizer = Tokenizer::bytes();
  CHECK(tokenizer.size() == 256);
  const std::string text("a\0\xff\x80\xc3\xa9\n", 7);
  const std::vector<std::int32_t> tokens = tokenizer.encode(text, "text");
  CHECK(tokens == std::vector<std::int32_t>{97, 0, 255, 128, 195, 169, 10});
  CHECK(tokenizer.decode(tokens) == text);
  CHECK(tokenizer.encode("", "text").empty());
}

TEST_CASE("chars: the characters of the text in the order of their code points") {
  const Tokenizer tokenizer = Tokenizer::chars("zebra é 数\n𝄞 ééé", "text");
  CHECK(tokenizer.size() == 10);
  CHECK(tokenizer == Tokenizer::chars("𝄞数é\n zerba", "text"));
  CHECK(tokenizer.piece(0) == "\n");
  CHECK(tokenizer.piece(9) == "𝄞");
  CHECK(tokenizer.piece(10).empty());
  CHECK(tokenizer.piece(Tokenizer::kUnknown).empty());
  const std::vector<std::int32_t> tokens = tokenizer.encode("数é𝄞z", "text");
  CHECK(tokens == std::vector<std::int32_t>{8, 7, 9, 6});
  CHECK(tokenizer.decode(tokens) == "数é𝄞z");
}

TEST_CASE("chars: a character that is not known is named with its place, or counted") {
  const Tokenizer tokenizer = Tokenizer::chars("abc", "text");
  CHECK(complaint([&] { (void)tokenizer.encode("abé", "--prompt"); }, ErrorKind::kUsage) ==
        "--prompt: the character 'é' (U+00E9) at offset 2 is not among the 3 that the model knows");
  std::int64_t unknown = 0;
  CHECK(tokenizer.encode("axéc", "text", &unknown) == std::vector<std::int32_t>{0, -1, -1, 2});
  CHECK(unknown == 2);
}

TEST_CASE("chars: invalid UTF-8 is refused with its place") {
  for (const std::string bad : {"ab\xff", "ab\xc3", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\x80",
                                "ab\xe2\x82", "ab\xf8\x88\x80\x80\x80"}) {
    CHECK(complaint([&] { (void)Tokenizer::chars(bad, "a.txt"); }, ErrorKind::kUsage) ==
          "a.txt: not UTF-8 at offset 2");
  }
}

TEST_CASE("tokenizers survive their JSON; a wrong one is refused") {
  for (const Tokenizer& tokenizer : {Tokenizer::bytes(), Tokenizer::chars(std::string_view("a\0é数", 7), "text")}) {
    CHECK(Tokenizer::from_json(parse_json(canonical(tokenizer.to_json()), "t"), "t") == tokenizer);
  }
  const auto wrong = [](const char* text) {
    return complaint([&] { (void)Tokenizer::from_json(parse_json(text, "t"), "t"); }, ErrorKind::kCorrupt);
  };
  CHECK(wrong(R"({"format":"x"})").find("'format'") != std::string::npos);
  CHECK(wrong(R"({"format":"mlx-tokenizer","version":1,"kind":"bpe"})").find("\"bpe\"") != std::string::npos);
  for (const char* pieces : {"[]", "[\"b\",\"a\"]", "[\"a\",\"a\"]", "[\"ab\"]", "[\"\"]", "[3]"}) {
    const std::string text = std::string(R"({"format":"mlx-tokenizer","version":1,"kind":"chars","pieces":)") + pieces;
    CHECK(wrong((text + "}").c_str()).find("'pieces'") != std::string::npos);
  }
}
