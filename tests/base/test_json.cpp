// JSON in: errors with their place. JSON out: one sequence of bytes for one value.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/json.h"
#include "throws.h"

using namespace mlx;

namespace {
std::string canonical_of(std::string_view text) {
  return canonical(parse_json(text, "test"));
}
}  // namespace

TEST_CASE("keys keep their order until they are made canonical") {
  const Json value = parse_json(R"({"b": 1, "a": [true, null, "x"], "B": {}})", "test");
  CHECK_EQ(value.dump(), R"({"b":1,"a":[true,null,"x"],"B":{}})");
  CHECK_EQ(canonical(value), R"({"B":{},"a":[true,null,"x"],"b":1})");
  CHECK_EQ(canonical(parse_json(canonical(value), "again")), canonical(value));
}

TEST_CASE("canonical numbers are the shortest that read back the same") {
  CHECK_EQ(canonical_of("[0, -1, 18446744073709551615, -9223372036854775808]"),
           "[0,-1,18446744073709551615,-9223372036854775808]");
  CHECK_EQ(canonical_of("[1.0, 0.1, 1e3, 0.30000000000000004]"), "[1.0,0.1,1000.0,0.30000000000000004]");
  for (double value : {5e-324, 2.2250738585072014e-308, 9.5e-3, 1e23, 1.7976931348623157e308, 2.0 / 3, -0.0}) {
    const std::string text = canonical(Json(value));
    const Json back = parse_json(text, "test");
    CHECK_MESSAGE(back.is_number_float(), text);
    CHECK_MESSAGE(back.get<double>() == value, text);
    CHECK_EQ(std::signbit(back.get<double>()), std::signbit(value));
  }
  CHECK_EQ(canonical(Json(1e23)), "1e+23");  // one digit, where nearly right algorithms print sixteen
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK(error_of([&] { canonical(Json(bad)); }).kind == ErrorKind::kCorrupt);
  }
}

TEST_CASE("strings are escaped as little as JSON allows") {
  const Json value = std::string("\"\\/\b\f\n\r\t\x01\x0b\x1f é\x7f");
  const std::string text = canonical(value);
  CHECK_EQ(text, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u000b\\u001f é\x7f\"");
  CHECK(parse_json(text, "test") == value);
  CHECK(error_of([] { canonical(Json("\xFF")); }).kind == ErrorKind::kCorrupt);
  Json bad_key = Json::object();
  bad_key["\xC0"] = 1;
  CHECK(error_of([&] { canonical(bad_key); }).kind == ErrorKind::kCorrupt);
}

TEST_CASE("a syntax error names the thing, line and column") {
  const Error error = error_of([] { parse_json("{\n  \"a\": 1,\n  \"b\": ?\n}", "model.json"); });
  CHECK(error.kind == ErrorKind::kCorrupt);
  CHECK_MESSAGE(contains(error.message, "model.json: line 3, column 8: "), error.message);
  CHECK_MESSAGE(!contains(error.message, "json.exception"), error.message);
  for (const char* bad : {"", "{", "[1,]", "{\"a\":}", "1 2", "nul", "\"\xFF\"", "\"\\u12\"", "01", "'a'"}) {
    const Error each = error_of([&] { parse_json(bad, "x"); });
    CHECK_MESSAGE(each.kind == ErrorKind::kCorrupt, bad);
    CHECK_MESSAGE(each.message.starts_with("x: line 1, column "), each.message);
  }
  CHECK(error_of([] { parse_json("1e999", "x"); }).kind == ErrorKind::kCorrupt);
}

TEST_CASE("nesting is limited, brackets in strings do not count") {
  const std::string deepest = std::string(128, '[') + std::string(128, ']');
  CHECK_EQ(canonical_of(deepest), deepest);
  CHECK(error_of([] { parse_json(std::string(129, '['), "x"); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([] { parse_json(std::string(5'000'000, '['), "x"); }).kind == ErrorKind::kCorrupt);
  CHECK(parse_json("[\"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\"]", "x").is_array());
  Json built = 1;
  for (int i = 0; i < 200; ++i) built = Json::array({std::move(built)});
  CHECK(error_of([&] { canonical(built); }).kind == ErrorKind::kCorrupt);
}

TEST_CASE("bug: reading an object took the square of the number of its keys") {
  std::string text = "{\"other\":[{\"a\":{}},null,true,-1,2,0.5,\"b\"]";
  constexpr int kKeys = 200'000;
  for (int i = 0; i < kKeys; ++i) text += fmt::format(",\"{}\":{}", i, i);
  const double started = seconds_now();
  const Json json = parse_json(text + "}", "x");
  CHECK(seconds_now() - started < 10);  // it was a minute
  CHECK_EQ(json.size(), kKeys + 1);
  CHECK_EQ(json.front().dump(), R"([{"a":{}},null,true,-1,2,0.5,"b"])");
  CHECK_EQ(json.back(), kKeys - 1);
  CHECK(error_of([&] { parse_json(text + ",\"7\":1}", "x"); }).message == "x: the key '7' occurs twice");
}

TEST_CASE("typed access says what is missing or of another type") {
  const Json object =
      parse_json(R"({"s":"x","i":-3,"u":18446744073709551615,"f":1.5,"b":true,"a":[1],"o":{}})", "test");
  CHECK_EQ(json_string(object, "s", "m"), "x");
  CHECK_EQ(json_int(object, "i", "m"), -3);
  CHECK_EQ(json_number(object, "f", "m"), 1.5);
  CHECK_EQ(json_number(object, "i", "m"), -3.0);
  CHECK(json_bool(object, "b", "m"));
  CHECK_EQ(json_array(object, "a", "m").size(), 1);
  CHECK(json_object(object, "o", "m").empty());
  CHECK_EQ(error_of([&] { json_string(object, "none", "m.json"); }).message, "m.json: the key 'none' is missing");
  CHECK_EQ(error_of([&] { json_string(object, "i", "m.json"); }).message, "m.json: 'i': expected a string, got number");
  CHECK(error_of([&] { json_int(object, "f", "m"); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([&] { json_int(object, "u", "m"); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([&] { json_number(object, "s", "m"); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([&] { json_bool(object, "i", "m"); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([&] { json_array(object, "o", "m"); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([&] { json_object(object, "a", "m"); }).kind == ErrorKind::kCorrupt);
  CHECK(error_of([] { json_int(Json::array(), "a", "m"); }).kind == ErrorKind::kCorrupt);
}
