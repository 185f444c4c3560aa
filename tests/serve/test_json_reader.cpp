// The pull reader: what JSON allows, what it does not, and that no bytes lead outside of the text.
#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "base/json.h"
#include "serve/json_reader.h"

namespace mlx::serve {
namespace {

std::vector<float> numbers(const std::string& text) {
  std::vector<float> out;
  JsonReader in(text);
  in.numbers(out);
  in.end();
  return out;
}

TEST_CASE("numbers are read as they are written") {
  CHECK(numbers("[]").empty());
  CHECK(numbers(" [ 0 , 255,1234567 ,12345678] ") == std::vector<float>{0, 255, 1234567, 12345678});
  CHECK(numbers("[-0,0.5,-1.25e2,1E+2,1e-60,0.1]") == std::vector<float>{-0.0f, 0.5f, -125, 100, 0, 0.1f});
  CHECK(numbers("[[1,2],[3,4]]") == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("what is no JSON number or no tensor is refused with its offset") {
  for (const char* text : {"[01]",   "[1.]",    "[.5]",       "[+1]",        "[1e]",
                           "[--1]",  "[NaN]",   "[Infinity]", "[null]",      "[\"1\"]",
                           "[1,]",   "[,1]",    "[1 2]",      "[1",          "[",
                           "",       "1",       "[1]x",       "[1e99]",      "[1e400]",
                           "[0x10]", "[1,[2]]", "[[1],2]",    "[[1,2],[3]]", "[[[[[[[[[1]]]]]]]]]",
                           "[true]", "[-]"}) {
    CAPTURE(text);
    try {
      numbers(text);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kCorrupt);
      CHECK(error.message.find("offset") != std::string::npos);
    }
  }
}

TEST_CASE("numbers too small for a float are 0, those too large are refused") {
  CHECK(numbers("[1e-400,-1E-400]") == std::vector<float>{0, 0});  // bug: the second was out of range
  CHECK_THROWS_AS(numbers("[1E400]"), Error);
  CHECK(JsonReader("1E-400").real() == 0);
  CHECK(JsonReader(" 0.1").real() == 0.1);
  CHECK_THROWS_AS(JsonReader("1e999").real(), Error);
}

TEST_CASE("a value's text, and reading on from an offset") {
  const std::string text = R"( {"a": [1, {"b": "}"}] , "c" : null} )";
  JsonReader in(text);
  std::string keys;
  std::size_t at = 0;
  in.object([&](const std::string& key) {
    keys += key;
    if (key == "a") {
      CHECK(in.at_array());
      at = in.offset();
      CHECK(in.raw() == R"([1, {"b": "}"}])");
    } else {
      CHECK(in.at_null());
      CHECK(in.raw() == "null");
    }
  });
  CHECK(keys == "ac");
  JsonReader again(text, at);
  again.begin_array();
  REQUIRE(again.next_element());
  CHECK(again.number_text() == "1");
  REQUIRE(again.next_element());
  CHECK(again.at_object());
}

TEST_CASE("strings: escapes, surrogates, and what is none") {
  const auto read = [](const std::string& text) {
    JsonReader in(text);
    std::string out = in.string();
    in.end();
    return out;
  };
  CHECK(read(R"("a\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00")") == "a\"\\/\b\f\n\r\tA\u00e9\U0001F600");
  for (const char* text : {"\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\ud800\\u0041\"",
                           "\"\\udc00\"", "\"\x01\"", "\"\xff\""}) {
    CAPTURE(text);
    CHECK_THROWS_AS(read(text), Error);
  }
}

TEST_CASE("values that do not matter are skipped, to a depth") {
  const std::string text = R"({"a":{"b":[1,{"c":null}],"d":"}"},"e":true})";
  JsonReader in(text);
  in.skip();
  in.end();
  for (const std::string& deep :
       {std::string(100000, '['), std::string(R"({"a":tru})"), std::string("nul"), std::string("[1}")}) {
    JsonReader hostile(deep);
    CHECK_THROWS_AS(hostile.skip(), Error);
  }
}

TEST_CASE("written strings are JSON whatever the bytes") {
  for (const std::string& text : {std::string("a\"b\\c\n\x01\x7f"), std::string("\xff\xfe"), std::string("é")}) {
    std::string out;
    append_json_string(out, text);
    CHECK_NOTHROW(parse_json(out, "test"));
  }
}

TEST_CASE("agrees with nlohmann on mutated documents") {
  const std::string base = R"({"id":"x","n":[1,-2.5e3,[true,null]],"s":"\u00e9\n"} )";
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text = base;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1);
      } else {
        text[at] = static_cast<char>("{}[],:\"\\0123456789.eE+-tfnu x"[random() % 30]);
      }
    }
    bool ours = true;
    try {
      JsonReader in(text);
      in.skip();
      in.end();
    } catch (const Error&) {
      ours = false;
    }
    CAPTURE(text);
    // A number that no double holds is no matter of grammar: nlohmann refuses it, skipping does not look.
    if (ours != Json::accept(text)) CHECK(text.find_first_of("eE") != std::string::npos);
  }
}

}  // namespace
}  // namespace mlx::serve
