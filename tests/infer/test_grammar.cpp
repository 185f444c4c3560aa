// Grammars: what each notation accepts and refuses, hostile ones within their limits, and tokens whose bytes cross the
// borders of rules.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer.h"
#include "grammars.h"
#include "infer/grammar/token_grammar.h"

using namespace mlx;
using namespace mlx::infer;
using namespace mlx::infer::test;

namespace {

struct Example {
  const char* grammar;
  std::vector<std::string> in, out;
};

void check_examples(const std::vector<Example>& examples, Acceptor (*made)(std::string_view)) {
  for (const Example& example : examples) {
    CAPTURE(example.grammar);
    Acceptor acceptor = made(example.grammar);
    for (const std::string& text : example.in) {
      CAPTURE(text);
      CHECK(acceptor.accepts(text));
    }
    for (const std::string& text : example.out) {
      CAPTURE(text);
      CHECK_FALSE(acceptor.accepts(text));
    }
  }
}

// What is wrong with it.
std::string refusal(Acceptor (*made)(std::string_view), const std::string& source) {
  try {
    made(source);
    return "nothing";
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    return error.message;
  }
}

std::string times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("grammar: GBNF accepts what its rules say") {
  check_examples(
      {{R"(root ::= "a" | "bc" | )", {"a", "bc", ""}, {"b", "abc", "aa"}},
       {R"(root ::= "a" "b"? "c"* "d"+)", {"ad", "abd", "acccdd"}, {"a", "abb", "abcc"}},
       {R"(root ::= [0-9]{2}[a-c]{1,3}x{2,}
x ::= "x")",
        {"00axx", "12abcxxxx"},
        {"0axx", "12abcdxx", "12ax"}},
       {"root ::= [^\"\\\\\\x41-\\x43\\n]",
        {"D", "a", "\xc3\xa4", "\xf0\x9f\x98\x80"},
        {"A", "\"", "\\", "\n", "\xc3"}},
       {"root ::= [\\u00e4\\u4e16-\\u4e18]+", {"\xc3\xa4\xe4\xb8\x96\xe4\xb8\x97"}, {"a", "\xe4\xb8\x99", "\xc3\xa5"}},
       {"root ::= .",
        {"a", "\n", "\xe4\xb8\x96", "\xf4\x8f\xbf\xbf"},
        {"", "ab", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "\xff"}},
       {"# comment\nroot ::= ( # one\n \"a\" |\n \"b\"\n) \"\\t\\\"\" # more\n  | other\nother ::= \"c\"",
        {"a\t\"", "b\t\"", "c"},
        {"a", "b\t"}},
       {"root ::= list\nlist ::= item (\",\" item)*\nitem ::= [a-z]+ | \"(\" list \")\"",
        {"a", "ab,c", "(a,(b,c)),d"},
        {"", "a,", "(a", "(a))"}},
       {"root ::= (\"a\"*)*", {"", "aaa"}, {"b"}},
       {"root ::= (((\"\")*)+ \"x\"?)*", {"", "xx"}, {"y"}},
       {"root ::= \"a\" root | \"b\"", {"b", "aaab", times("a", 5000) + "b"}, {"a", ""}},
       {"root ::= [-a]+ [\\]\\[\\^]", {"-a]", "a^", "a["}, {"b]"}},
       {"root ::= \"\\U0001F600\"", {"\xf0\x9f\x98\x80"}, {"\xf0\x9f\x98\x81"}},
       {"root ::= x{3}\r\nx ::= \"y\" | \"z\"\r\n", {"yzy"}, {"yz"}}},
      of_gbnf);
}

TEST_CASE("grammar: GBNF that is wrong is refused with its line") {
  const auto refused = [](const std::string& source) { return refusal(of_gbnf, source); };
  CHECK(refused("") == "test: there is no rule 'root'");
  CHECK(refused("a ::= \"x\"") == "test: there is no rule 'root'");
  CHECK(refused("root ::= a\nb ::= \"x\"") == "test: the rule 'a' is used and not there");
  CHECK(refused("root ::= \"a\"\nroot ::= \"b\"") == "test:2: a second rule 'root'");
  CHECK(refused("root = \"a\"") == "test:1: expected ::= behind 'root', found '='");
  CHECK(refused("root ::= \"a\n\"") == "test:1: a missing \"");
  CHECK(refused("root ::= [a") == "test:1: a missing ]");
  CHECK(refused("root ::= []") == "test:1: an empty class");
  CHECK(refused("root ::= [z-a]") == "test:1: a range of a class ends before it begins");
  CHECK(refused("root ::= (\"a\"") == "test:1: expected ), found the end");
  CHECK(refused("root ::= \"a\" )") == "test:1: expected the end of the rule, found ')'");
  CHECK(refused("root ::= \"\\q\"") == "test:1: there is no escape \\q");
  CHECK(refused("root ::= \"\\ud800\"") == "test:1: U+D800 is no character");
  CHECK(refused("root ::= \"a\"{2,1}") == "test:1: {2,1}: the second number is smaller");
  CHECK(refused("root ::= \"a\"{,}") == "test:1: expected a number, found ','");
  CHECK(refused("root ::= <[42]>").find("are not supported") != std::string::npos);
  CHECK(refused("root ::= \"\xff\"") == "test:1: it is not UTF-8");
}

TEST_CASE("grammar: hostile grammars are refused within limits") {
  const auto refused = [](const std::string& source) { return refusal(of_gbnf, source); };
  CHECK(refused("root ::= root \"a\" | \"b\"").find("'root' is left-recursive") != std::string::npos);
  CHECK(refused("root ::= a\na ::= b* c\nb ::= \"x\"\nc ::= a | \"y\"").find("is left-recursive") != std::string::npos);
  CHECK(refused("root ::= \"a\" root").find("no text of the rule 'root' ends") != std::string::npos);
  CHECK(refused("root ::= \"b\" | \"a\" x\nx ::= y \"z\"\ny ::= \"c\" x").find("ends") != std::string::npos);
  CHECK(refused("root ::= \"a\"{1000000}{1000000}").find("too large") != std::string::npos);
  CHECK(refused("root ::= (\"\"{1000000000}){1000000000}").find("too large") != std::string::npos);
  CHECK(refused("root ::= " + times("(", 200) + "\"a\"" + times(")", 200)).find("more than 100 groups") !=
        std::string::npos);
  CHECK(refused("root ::= " + std::string(2 << 20, ' ')).find("more than 1048576 bytes") != std::string::npos);
  std::string many = "root ::= r0\n";
  for (int i = 0; i < 30000; ++i) many += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + "\n";
  CHECK(refused(many).find("more than 20000 rules") != std::string::npos);
  // A long chain of rules, in the order that takes a naive search longest.
  std::string chain = "r0 ::= \"a\"\n";
  for (int i = 1; i < 15000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i - 1) + " \"b\"\n";
  Acceptor long_chain = of_gbnf(chain + "root ::= r14999");
  CHECK(long_chain.accepts("a" + times("b", 14999)));
  // Classes of thousands of characters.
  std::string sparse = "root ::= [";
  for (int i = 0; i < 20000; ++i) {
    char code[12];
    std::snprintf(code, sizeof code, "\\U%08x", 0x10000 + 7 * i);
    sparse += code;
  }
  Acceptor of_sparse = of_gbnf(sparse + "]+");
  CHECK(of_sparse.accepts("\xf0\x90\x80\x80\xf0\x90\x80\x87"));
  CHECK_FALSE(of_sparse.accepts("\xf0\x90\x80\x81"));
  // Ambiguity that would double with every character.
  Acceptor doubling = of_gbnf("root ::= (a | b)*\na ::= \"x\" a? \nb ::= \"x\" b? b?");
  const auto read_all = [&] { return doubling.begins(times("x", 2000)); };
  try {
    read_all();
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
  }
}

TEST_CASE("grammar: JSON schemas accept what they describe") {
  check_examples(
      {{"{}",
        {"1", "-0.5e10", "\"a\\n\\u00e4\\ud83d\\ude00\"", "[]", "[1, {\"a\":\n  null}]", "{\"a\":{}}", "true"},
        {"", "01", "+1", "\"\n\"", "[1,]", "{a:1}", "\"\\ud83d\"", "nul", "1 "}},
       {"true", {"{}"}, {"{"}},
       {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]})",
        {R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({ "a": 1, "b": "", "c": null })"},
        {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({,"b":"x"})"}},
       {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
        {"{}", R"({"a":1})", R"({"a":1,"b":true,"ab":false})", R"({"":true})", R"({"c":true})"},
        {R"({"a":true})", R"({"b":1})", R"({"b":true,"a":true})"}},
       {R"({"type":"object","properties":{"ab":{},"abc":{},"b\"":{}},"additionalProperties":{"const":0},"required":["z"]})",
        {R"({"z":0})", R"({"ab":[],"z":0,"a":0,"abcd":0,"abx":0,"b":0})"},
        {R"({"z":0,"ab":0})", R"({"z":0,"abc":0})", R"({"z":0,"\u0061":0})", "{}"}},
       {R"({"required":["a"],"additionalProperties":true})", {R"({"a":1,"b":2})"}, {"{}", "1"}},
       {R"({"type":"object"})", {"{}", R"({"a":[]})"}, {"[]"}},
       {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
       {R"({"enum":["a\"b",1,null,{"k":[1]}]})",
        {"\"a\\\"b\"", "1", "null", R"({"k":[1]})"},
        {"2", "\"a\"", R"({"k": [1]})"}},
       {R"({"enum":["a",1,2.5],"type":["string","integer"]})", {"\"a\"", "1"}, {"2.5"}},
       {R"({"const":{"a":"\u00e4\n"}})", {"{\"a\":\"\xc3\xa4\\n\"}"}, {"{}"}},
       {R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1]", "[1, 2,3]"}, {"[1,]", "[\"a\"]"}},
       {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
        {"[1,2]", "[1,2,3]"},
        {"[1]", "[1,2,3,4]", "[]"}},
       {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"boolean"}]})",
        {"[]", "[1]", "[1,true]"},
        {"[true]", "[1,true,1]"}},
       {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"boolean"}],"minItems":2,"items":{"type":"null"},"maxItems":3})",
        {"[1,true]", "[1,true,null]"},
        {"[1]", "[1,true,null,null]", "[1,true,1]"}},
       {R"({"type":"array","prefixItems":[{},{}],"maxItems":1,"items":false})", {"[]", "[1]"}, {"[1,2]"}},
       {R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
       {R"({"type":"string","minLength":2,"maxLength":3})",
        {"\"ab\"", "\"a\xc3\xa4\xf0\x9f\x98\x80\"", "\"\\ud83d\\ude00a\""},
        {"\"a\"", "\"abcd\"", "\"\\n\""}},
       {R"({"type":"string","pattern":"^[a-c]{2}\\d+(x|yz)?$"})",
        {"\"ab1\"", "\"cc23yz\""},
        {"\"ab\"", "\"ab1y\"", "\"xab1\""}},
       {R"({"pattern":"a\"b|^c$|d\\.\\\\"})",
        {"\"xa\\\"by\"", "\"c\"", "\"d.\\\\\"", "\"qd.\\\\q\""},
        {"\"xc\"", "\"cx\"", "\"\""}},
       {R"({"pattern":"^(?:[^\\s\\x00-\\x1f]|\\n)*?$"})", {"\"ab\"", "\"\\n\""}, {"\" \"", "\"\\t\""}},
       {R"({"pattern":"^.\\u0001$"})", {"\"a\\u0001\""}, {"\"a\x01\"", "\"\\n\\u0001\""}},
       {R"({"format":"date"})",
        {"\"2024-02-28\"", "\"1999-12-31\""},
        {"\"2024-02-30\"", "\"2024-04-31\"", "\"0000-01-01\""}},
       {R"({"format":"date-time"})",
        {"\"2024-02-28T23:59:59.5+02:00\"", "\"2024-02-28T00:00:00Z\""},
        {"\"2024-02-28\"", "\"2024-02-28T24:00:00Z\""}},
       {R"({"format":"uuid"})", {"\"01234567-89ab-cdef-0123-456789abcdef\""}, {"\"01234567\""}},
       {R"({"type":"integer","minimum":-12,"maximum":105})",
        {"-12", "-1", "0", "9", "99", "100", "105", "-9", "-10"},
        {"-13", "-20", "106", "110", "1000", "-0", "00", "1.0", ""}},
       {R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":5})", {"4"}, {"3", "5", "44"}},
       {R"({"type":"integer","minimum":1000})",
        {"1000", "9999", "12345", "1234567890123456"},
        {"999", "12345678901234567", "-1000"}},
       {R"({"type":"integer","maximum":-7})", {"-7", "-8", "-10", "-70"}, {"-6", "7", "0", "-1"}},
       {R"({"type":"integer","minimum":0.5,"maximum":1.5})", {"1"}, {"0", "2"}},
       {R"({"type":"number","minimum":0,"maximum":1})",
        {"0", "0.5", "1", "1.00", "0.0"},
        {"1.01", "-0.5", "2", "1e0", ".5"}},
       {R"({"type":"number","minimum":-2,"maximum":10})",
        {"-2", "-1.99", "-0.5", "9.99", "10.0", "7"},
        {"-2.1", "10.1", "-3", "11"}},
       {R"({"type":"number","maximum":-3})", {"-3", "-3.5", "-12", "-3.0"}, {"-2.9", "-0", "3"}},
       {R"({"type":["null","boolean"]})", {"null", "true", "false"}, {"0"}},
       {R"({"anyOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#"}}]})",
        {"1", "[[],[1,[2]]]"},
        {"[true]", "{}"}},
       {R"({"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"]}},"$ref":"#/$defs/tree"})",
        {R"({"v":1})", R"({"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]})"},
        {R"({"v":1,"kids":[{}]})"}},
       {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k"]},
                     {"type":"object","properties":{"k":{"enum":["b","c"]},"y":{"type":"null"}},"required":["k","y"]},
                     {"type":"string"},{"const":3}]})",
        {R"({"k":"a","x":1})", R"({"k":"c","y":null})", "\"s\"", "3"},
        {R"({"k":"b"})", R"({"k":"a","y":null})", "4"}},
       {R"({"allOf":[{"type":"null"}],"title":"t","description":"d","x-own":1})", {"null"}, {"1"}}},
      of_schema);
}

TEST_CASE("grammar: an enum may have tens of thousands of values") {
  std::string source = "{\"enum\":[";
  for (int i = 0; i < 30000; ++i) source += (i > 0 ? ",\"" : "\"") + std::to_string(i * 7) + "\"";
  Acceptor acceptor = of_schema(source + ",0,12,1,\"" + times("a", 100) + "\",\"" + times("a", 99) + "\"]}");
  for (const char* const in : {"\"0\"", "\"7\"", "\"209993\"", "0", "12", "1"}) CHECK(acceptor.accepts(in));
  for (const char* const out : {"\"8\"", "\"\"", "2", "\"2099930\"", "\"aa\""}) CHECK_FALSE(acceptor.accepts(out));
  CHECK(acceptor.accepts("\"" + times("a", 99) + "\""));
  std::string nested = "{\"enum\":[\"\"";
  for (int i = 1; i < 1000; ++i) nested += ",\"" + times("a", i) + "\"";
  Acceptor of_nested = of_schema(nested + "]}");
  CHECK(of_nested.accepts("\"" + times("a", 999) + "\""));
  CHECK_FALSE(of_nested.accepts("\"" + times("a", 1000) + "\""));
}

TEST_CASE("grammar: what a JSON schema cannot be is refused by its name and place") {
  const auto refused = [](const std::string& source) { return refusal(of_schema, source); };
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{", "test: line 1"},
      {"[]", "test: /: expected a schema, an object, got array"},
      {"false", "false allows nothing"},
      {R"({"properties":{"a":{"requred":[]}}})", "test: /properties/a: 'requred' is not supported"},
      {R"({"not":{}})", "'not' is not supported"},
      {R"({"if":{}})", "'if' is not supported"},
      {R"({"type":"array","uniqueItems":true})", "'uniqueItems' is not supported"},
      {R"({"type":"object","patternProperties":{}})", "'patternProperties' is not supported"},
      {R"({"type":"object","minProperties":1})", "'minProperties' is not supported"},
      {R"({"type":"integer","multipleOf":2})", "'multipleOf' is not supported"},
      {R"({"type":"text"})", "'type': expected object, array"},
      {R"({"type":[]})", "'type' is empty"},
      {R"({"type":"number","exclusiveMinimum":1})", "'exclusiveMinimum' of a number is not supported"},
      {R"({"type":"number","minimum":0.5})", "'minimum' of a number: only integers are supported"},
      {R"({"type":"integer","minimum":1e300})", "from -1e15 to 1e15"},
      {R"({"type":"integer","minimum":3,"maximum":2})", "no number is at least 3 and at most 2"},
      {R"({"type":"string","minLength":2,"maxLength":1})", "'maxLength' is below 'minLength'"},
      {R"({"type":"string","minLength":-1})", "'minLength': expected an integer from 0"},
      {R"({"type":"string","minLength":1,"pattern":"a"})", "beside each other are not supported"},
      {R"({"type":"string","format":"email"})", "the format 'email' is not supported"},
      {R"_({"pattern":"(?=a)"})_", "(?= is not supported"},
      {R"({"pattern":"(a)\\1"})", "\\1 is not supported"},
      {R"({"pattern":"a^b"})", "^ is supported only at an end"},
      {R"_({"pattern":"(a$)"})_", "$ is supported only at an end"},
      {R"({"pattern":"[b-a]"})", "a range of a class that is none"},
      {R"({"pattern":"a{999999999}"})", "a repetition of more than"},
      {R"({"pattern":"(a"})", "a missing )"},
      {R"({"pattern":"*"})", "'*' at offset 0 has no meaning there"},
      {R"({"enum":[]})", "'enum': expected values in a list"},
      {R"({"enum":["a"],"type":"integer"})", "none of its values has its type"},
      {R"({"const":1,"minimum":0})", "'minimum' beside 'const' is not supported"},
      {R"({"anyOf":[]})", "'anyOf': expected schemas in a list"},
      {R"({"anyOf":[{}],"type":"object"})", "'type' beside 'anyOf' is not supported"},
      {R"({"allOf":[{},{}]})", "'allOf' of more than one schema"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "may be of the schemas 0 and 1 at once"},
      {R"({"$ref":"other.json"})", "'$ref' 'other.json' is not supported"},
      {R"({"$ref":"#/$defs/a"})", "there is no '#/$defs/a'"},
      {R"({"$ref":"#"})", "no text of the rule '#' ends"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "'#' is left-recursive"},
      {R"({"type":"array","items":{"$ref":"#"},"minItems":1})", "no text of the rule"},
      {R"({"type":"array","items":[{}]})", "write prefixItems"},
      {R"({"type":"array","items":false,"minItems":1})", "'minItems' is more than"},
      {R"({"type":"string","maxLength":1000000})", "too large"},
      {R"({"type":"object","required":["a"],"properties":{},"additionalProperties":false})",
       "'a' is required and no property"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.first);
    const std::string message = refused(one.first);
    CHECK_MESSAGE(message.find(one.second) != std::string::npos, message);
  }
}

namespace {

using grammar::Mask;
using grammar::Matcher;
using grammar::TokenGrammar;
using grammar::Vocabulary;

bool allows(const Mask& mask, std::int32_t token) {
  return (mask.bits[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

std::shared_ptr<TokenGrammar> tokens_of(const data::Tokenizer& tokenizer, const grammar::Rules& rules,
                                        std::vector<std::int32_t> ends = {}) {
  return std::make_shared<TokenGrammar>(std::make_shared<const Vocabulary>(tokenizer, std::move(ends)),
                                        std::make_shared<const grammar::Automaton>(rules, "test"), "test");
}

// A word-level vocabulary of these pieces; the first one is a special token.
data::Tokenizer words(const std::vector<std::string>& pieces) {
  Json names = Json::object();
  for (std::size_t i = 0; i < pieces.size(); ++i) names[pieces[i]] = i;
  const Json file = {{"version", "1.0"},
                     {"added_tokens",
                      {{{"id", 0},
                        {"content", pieces[0]},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", true}}}},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", nullptr},
                     {"post_processor", nullptr},
                     {"decoder", nullptr},
                     {"model", {{"type", "WordLevel"}, {"vocab", names}, {"unk_token", pieces[0]}}}};
  return data::Tokenizer::from_file(file.dump(), "test");
}

}  // namespace

TEST_CASE("grammar: tokens cross the borders of rules, special ones are masked, the end is allowed where it may be") {
  const data::Tokenizer tokenizer =
      words({"<end>", "{\"", "a", "\":", "\": [", "1", ",", "1, 1", "]", "]}", "}", "x", "{\"a\": [1]}", "\"}"});
  const grammar::Rules rules = grammar::parse_gbnf(
      "root ::= \"{\" name \": [\" [0-9] (\", \" [0-9])* \"]}\" \"x\"*\nname ::= \"\\\"a\\\"\"", "test");
  const auto made = tokens_of(tokenizer, rules, {0});
  Matcher matcher(made);
  const auto allowed = [&] {
    std::vector<std::int32_t> out;
    const auto mask = matcher.allowed();
    for (std::int32_t token = 0; token < tokenizer.size(); ++token)
      if (allows(*mask, token)) out.push_back(token);
    CHECK(mask->tokens == static_cast<std::int64_t>(out.size()));
    return out;
  };
  CHECK(allowed() == std::vector<std::int32_t>{1, 12});
  Matcher other = matcher;  // a copy goes its own way
  CHECK(matcher.accept(1));
  CHECK(allowed() == std::vector<std::int32_t>{2});
  CHECK(matcher.accept(2));
  CHECK(allowed() == std::vector<std::int32_t>{3, 4});
  CHECK(matcher.accept(4));
  CHECK(matcher.accept(7));
  CHECK(allowed() == std::vector<std::int32_t>{6, 8, 9});
  CHECK(matcher.accept(9));
  CHECK(allowed() == std::vector<std::int32_t>{0, 11});
  CHECK_FALSE(matcher.complete());
  CHECK(matcher.accept(11));
  CHECK_FALSE(matcher.accept(0));  // ends it
  CHECK(other.accept(12));
  CHECK_FALSE(other.complete());
  // What no token writes is an error with a reason, not an endless search.
  Matcher stuck(tokens_of(tokenizer, grammar::parse_gbnf("root ::= \"{\\\"b\"", "test")));
  CHECK(stuck.accept(1));
  CHECK_THROWS_WITH_AS(stuck.allowed(), doctest::Contains("in no token of the model"), Error);
  Matcher whole(tokens_of(tokenizer, grammar::parse_gbnf("root ::= \"}\"", "test")));
  CHECK(whole.accept(10));
  CHECK(whole.complete());
  CHECK(whole.allowed()->tokens == 0);
}

TEST_CASE("grammar: the tokens that a trie finds are those that each token by itself finds") {
  std::mt19937 random(5);
  const std::string letters = "ab\"[]{},:1 \n\xc3\xa4";
  std::vector<std::string> pieces{"<end>"};
  while (pieces.size() < 400) {
    std::string piece;
    for (std::size_t i = 0, n = 1 + random() % 5; i < n; ++i) piece += letters[random() % (letters.size() - 2)];
    if (random() % 4 == 0) piece += "\xc3\xa4";
    if (std::ranges::find(pieces, piece) == pieces.end()) pieces.push_back(piece);
  }
  const data::Tokenizer tokenizer = words(pieces);
  const grammar::Rules rules = grammar::parse_schema("{}", "test");
  const auto made = tokens_of(tokenizer, rules);
  for (int text = 0; text < 20; ++text) {
    Matcher matcher(made);
    Acceptor acceptor(rules);
    std::string so_far;
    for (int i = 0; i < 30 && !matcher.complete(); ++i) {
      const auto mask = matcher.allowed();
      std::vector<std::int32_t> choices;
      for (std::int32_t token = 0; token < tokenizer.size(); ++token) {
        const bool is = allows(*mask, token);
        if (token > 0) CHECK(is == acceptor.begins(so_far + pieces[static_cast<std::size_t>(token)]));
        if (is) choices.push_back(token);
      }
      CHECK_FALSE(allows(*mask, 0));
      if (choices.empty()) break;
      const std::int32_t token = choices[random() % choices.size()];
      CHECK(matcher.accept(token));
      so_far += pieces[static_cast<std::size_t>(token)];
    }
  }
}

TEST_CASE("grammar: bug: a text of more sets than are remembered goes on") {
  const data::Tokenizer tokenizer = data::Tokenizer::bytes();
  const auto made = tokens_of(tokenizer, grammar::parse_gbnf("root ::= [a-z]{20000}", "test"));
  Matcher matcher(made);
  for (int i = 0; i < 20000; ++i) {
    if (i % 1000 == 0) CHECK(matcher.allowed()->tokens == 26);
    REQUIRE(matcher.accept('x'));
  }
  CHECK(matcher.complete());
}
