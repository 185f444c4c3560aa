// The parts of other programs' tokenizers: hand-written scanners against the general engine, normal forms, merges, and
// files that are wrong or hostile. tests/reference/ compares whole tokenizers with the packages that define them.
#include <doctest/doctest.h>

#include <array>
#include <random>

#include "base/error.h"
#include "data/bpe_maker.h"
#include "data/subword/bpe_train.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/charsmap.h"
#include "data/subword/normal_forms.h"
#include "data/subword/regex.h"
#include "data/subword/scanners.h"
#include "data/tokenizer.h"

using namespace mlx;
using namespace mlx::data;
using namespace mlx::data::subword;

namespace {

const char* const kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Mostly what the patterns look at, and characters of all lengths.
std::string random_text(std::mt19937& random) {
  constexpr std::string_view kParts[] = {
      " ", "  ",     "\n", "\r\n", "\t", "'",    "'s",   "'LL",  "'ſ",      "a", "Bc", "é",    "1",    "23",
      "½", "\u00A0", "　", "-",    "!?", "한국", "漢字", "🙂", "e\u0301", "…", "_",  "\xFF", "\xE2", "\xF0\x9F"};
  std::string out;
  for (std::size_t i = random() % 24; i > 0; --i) out += kParts[random() % std::size(kParts)];
  return out;
}

std::vector<std::string> words_of(std::string_view text, const std::vector<Piece>& pieces) {
  std::vector<std::string> out;
  for (const Piece& piece : pieces) out.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  return out;
}

std::string normal(NormalForm form, std::string_view text) {
  AlignedText out;
  out.assign(text, 0, true);
  out.transform(to_form(form, text));
  return out.text();
}

std::string complaint(const std::string& file) {
  try {
    (void)Tokenizer::from_file(file, "t.json");
  } catch (const Error& error) {
    CHECK((error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kUsage));
    return error.message;
  }
  return "";
}

std::string with_model(const std::string& model, const std::string& more = "") {
  return R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":null,"decoder":null,)" + more + R"("model":)" + model +
         "}";
}

std::vector<std::string> matches(const char* pattern, std::string_view text) {
  std::vector<std::string> out;
  Regex(pattern, "test").each(text, [&](std::size_t begin, std::size_t end, bool match) {
    if (match) out.emplace_back(text.substr(begin, end - begin));
  });
  return out;
}

using Words = std::vector<std::string>;

// By the definition: of all pairs the one with the least rank, the leftmost first.
std::vector<std::int32_t> merged_slowly(const std::string& text) {
  const std::vector<std::array<std::int32_t, 3>> merges = {{0, 1, 2}, {2, 2, 3}, {1, 0, 4}, {0, 0, 5}};
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(c - 'a');
  for (bool merged = true; merged;) {
    merged = false;
    for (const auto& [left, right, made] : merges) {
      for (std::size_t i = 0; i + 1 < tokens.size() && !merged; ++i) {
        if (tokens[i] != left || tokens[i + 1] != right) continue;
        tokens[i] = made;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  return tokens;
}

}  // namespace

TEST_CASE("subword: scanners find the words that the patterns say") {
  std::mt19937 random(1);
  for (const char* const pattern : {kGpt2Pattern, kLlama3, kQwen2}) {
    const std::optional<ScannedPattern> scanned = scanned_pattern(pattern);
    REQUIRE(scanned);
    const Regex regex(pattern, "test");
    for (int i = 0; i < 3000; ++i) {
      const std::string text = random_text(random);
      std::vector<Piece> pieces, expected;
      scan_words(*scanned, text, {0, static_cast<std::uint32_t>(text.size()), -1}, pieces);
      regex.each(text, [&](std::size_t begin, std::size_t end, bool match) {
        CHECK(match);
        expected.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), -1});
      });
      REQUIRE(words_of(text, pieces) == words_of(text, expected));
    }
  }
  CHECK_FALSE(scanned_pattern(R"(\p{L}+)"));
}

TEST_CASE("subword: regular expressions match as Oniguruma does") {
  CHECK(matches("a|ab", "ab") == Words{"a"});
  CHECK(matches("(?:a|ab)(?:c|bcd)", "abcd") == Words{"abcd"});
  CHECK(matches("a+?b", "aab") == Words{"aab"});
  CHECK(matches("a++b|a", "aaab aa") == Words{"aaab", "a", "a"});
  CHECK(matches("(?>a+)a|b", "aaab") == Words{"b"});
  CHECK(matches(R"(\d{2,3})", "12345") == Words{"123", "45"});
  CHECK(matches(R"([a-c&&[^b]]+)", "abcca") == Words{"a", "cca"});
  CHECK(matches(R"([^\s[.,]]+)", "ab,cd e") == Words{"ab", "cd", "e"});
  CHECK(matches(R"(\p{Han}+|\p{^L})", "漢字a1") == Words{"漢字", "1"});
  CHECK(matches(R"((?<=a)b|(?<!a)c)", "ab ac bc") == Words{"b", "c"});
  CHECK(matches(R"((?i:straße|K))", "STRAßE \u212A") == Words{"STRAßE", "\u212A"});
  CHECK(matches(R"(\bis\b)", "this is") == Words{"is"});
  CHECK(matches("^a$", "a\nb\na") == Words{"a", "a"});
  CHECK(matches("x{,2}y", "xxxy") == Words{"xxy"});
  CHECK(matches("a*", "baac") == Words{"", "aa", ""});
  for (const char* const wrong :
       {"(", ")", "[a", "a{2,1}", "*a", "(?<n>a)", R"(\p{Klingon})", "(?:a*)*", "[z-a]", R"(\1)", "(?<=a+)b"})
    CHECK_THROWS_AS(Regex(wrong, "test"), Error);
}

TEST_CASE("subword: a pattern that backtracks without end is an error, not a wait") {
  const Regex regex(R"((?:a|aa)+(?:a|aa)+(?:a|aa)+!)", "test");
  const std::string text(200, 'a');
  CHECK_THROWS_AS(regex.each(text, [](std::size_t, std::size_t, bool) {}), Error);
  CHECK_THROWS_AS(Regex(std::string(1000, '(') + std::string(1000, ')'), "test"), Error);
  CHECK_THROWS_AS(Regex("(?:(?:(?:a{1000}b){1000}c){1000}d){1000}", "test"), Error);
}

TEST_CASE("subword: normal forms") {
  CHECK(normal(NormalForm::kNfc, "e\u0301 \u1112\u1161\u11AB q\u0307\u0323") == "\u00E9 \uD55C q\u0323\u0307");
  CHECK(normal(NormalForm::kNfd, "\u00E9 \uD55C \u1E69") == "e\u0301 \u1112\u1161\u11AB s\u0323\u0307");
  CHECK(normal(NormalForm::kNfkc, "\uFB01 \u2460 \uFF76\uFF9E") == "fi 1 \u30AC");
  CHECK(normal(NormalForm::kNfkd, "\u00BD") == "1\u20442");
  CHECK(normal(NormalForm::kNfc, "\u0958 \u2ADC") == "\u0915\u093C \u2ADD\u0338");  // excluded from composition
  CHECK(is_in_form(NormalForm::kNfc, "plain \u00E9"));
  CHECK_FALSE(is_in_form(NormalForm::kNfd, "\u00E9"));
  CHECK_FALSE(is_in_form(NormalForm::kNfc, "q\u0307\u0323"));
}

TEST_CASE("subword: every byte has a character, and the other way around") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  CHECK(from_byte_characters(to_byte_characters(bytes)) == bytes);
  CHECK(to_byte_characters(" a\n") == "ĠaĊ");
  CHECK_FALSE(from_byte_characters("▁"));
}

TEST_CASE("subword: a tokenizer made from text gives every text back, whatever its bytes") {
  BpeMaker maker;
  for (int i = 0; i < 3; ++i) maker.add("the cat sat on the mat, the hat of that cat\n");
  NoProgress silent;
  const Tokenizer made = maker.tokenizer(270, {"<|end|>"}, "text", silent);
  CHECK(made.kind() == "bpe");
  CHECK(made.size() == 270);
  CHECK(made.piece(0) == "<|end|>");
  CHECK(Tokenizer::from_file(made.file(), "again") == made);
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_text(random) + (i % 3 == 0 ? " the cat<|end|> " : "");
    const std::vector<std::int32_t> tokens = made.encode(text, "text");
    CHECK(made.decode(tokens) == text);
    CHECK(made.encode_placed(text, "text", false).ids == tokens);
  }
  CHECK(made.encode(" the", "text").size() == 1);
  CHECK_THROWS_WITH_AS((void)maker.tokenizer(5000, {}, "a.txt", silent),
                       "a.txt: 5000 tokens are wanted, the text gives 273", Error);
}

TEST_CASE("subword: parts of a text end where no word goes on, so that they have the tokens of the whole") {
  BpeMaker maker;
  std::mt19937 random(3);
  std::string text;
  for (int i = 0; i < 4000; ++i) text += random_text(random) + (i % 7 == 0 ? "\nnext" : " word");
  maker.add(text);
  NoProgress silent;
  const Tokenizer made = maker.tokenizer(400, {}, "text", silent);
  const std::vector<std::int32_t> whole = made.encode(text, "text");
  std::vector<std::int32_t> joined;
  std::string_view left = text;
  while (!left.empty()) {
    const std::string_view part = left.substr(0, 700 + random() % 300);
    const std::size_t size = part.size() == left.size() ? part.size() : part.size() - made.unfinished(part);
    REQUIRE(size > 0);
    const std::vector<std::int32_t> tokens = made.encode(left.substr(0, size), "text", nullptr, 0, joined.empty());
    joined.insert(joined.end(), tokens.begin(), tokens.end());
    left.remove_prefix(size);
  }
  CHECK(joined == whole);
}

TEST_CASE("subword: few and many symbols merge in the same order") {
  const Tokenizer tokenizer =
      Tokenizer::from_file(with_model(R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abab":3,"ba":4,"aa":5},)"
                                      R"("merges":["a b","ab ab","b a","a a"]})"),
                           "t.json");
  std::mt19937 random(4);
  for (std::size_t length = 1; length < 200; ++length) {
    std::string text;
    for (std::size_t n = 0; n < length; ++n) text += random() % 2 == 0 ? 'a' : 'b';
    CHECK(tokenizer.encode(text, "text") == merged_slowly(text));
  }
  CHECK(tokenizer.encode("ababaab", "text") == std::vector<std::int32_t>{3, 0, 2});
  CHECK(tokenizer.encode(std::string(100, 'a'), "text") == std::vector<std::int32_t>(50, 5));
}

TEST_CASE("subword: unigram, WordPiece and byte fallback") {
  const Tokenizer unigram = Tokenizer::from_file(
      with_model(
          R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-3],["a",-2],["b",-2.5],["ab",-3],["▁a",-2.2]]})",
          R"("pre_tokenizer":{"type":"Metaspace","prepend_scheme":"always","split":true},)"),
      "t.json");
  CHECK(unigram.kind() == "unigram");
  CHECK(unigram.encode("a ab xyb", "text") == std::vector<std::int32_t>{5, 5, 3, 1, 0, 3});
  const PlacedTokens placed = unigram.encode_placed("a é", "text", false);
  CHECK(placed.places == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {1, 2}, {2, 4}});

  const Tokenizer pieces = Tokenizer::from_file(
      with_model(
          R"({"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":5,)"
          R"("vocab":{"[UNK]":0,"un":1,"##able":2,"##a":3,"a":4}})",
          R"("normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},)"),
      "t.json");
  CHECK(pieces.encode("UNá a unable b", "text") == std::vector<std::int32_t>{1, 3, 4, 0, 0});

  const Tokenizer fallback = Tokenizer::from_file(
      with_model(
          R"({"type":"BPE","byte_fallback":true,"unk_token":"<unk>","merges":[],"vocab":{"<unk>":0,"a":1,"<0xC3>":2,"<0xA9>":3}})"),
      "t.json");
  CHECK(fallback.encode("aé漢", "text") == std::vector<std::int32_t>{1, 2, 3, 0});
}

TEST_CASE("subword: files that are wrong or hostile are refused") {
  CHECK(complaint("").find("t.json: line 1") == 0);
  CHECK(complaint("[1]").find("expected an object") != std::string::npos);
  CHECK(complaint("{}").find("'model' is missing") != std::string::npos);
  CHECK(complaint(std::string(100000, '[')).find("nested deeper than 64 levels") != std::string::npos);
  CHECK(complaint(with_model(R"({"type":"BPE","vocab":{"a":1000000000},"merges":[]})")).find("the number of 'a'") !=
        std::string::npos);
  CHECK(complaint(with_model(R"({"type":"BPE","vocab":{"a":-1},"merges":[]})")).find("the number of 'a'") !=
        std::string::npos);
  CHECK(complaint(with_model(R"({"type":"BPE","vocab":{"a":{}},"merges":[]})")).find("has no number") !=
        std::string::npos);
  CHECK(complaint(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})")).find("needs the token 'b'") !=
        std::string::npos);
  CHECK(complaint(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a"]})")).find("#1 is not two tokens") !=
        std::string::npos);
  CHECK(complaint(with_model(R"({"type":"Unigram","vocab":[["a"]]})")).find("#1 is not a token and its score") !=
        std::string::npos);
  CHECK(complaint(with_model(R"({"type":"Telepathy"})")).find("'Telepathy' is not supported") != std::string::npos);
  const std::string good = R"({"type":"BPE","vocab":{"a":0},"merges":[]})";
  CHECK(complaint(with_model(good)) == "");
  CHECK(complaint(with_model(good, R"("post_processor":{"type":"BertProcessing","cls":["x",7],"sep":["x",0]},)"))
            .find("no number of the vocabulary") != std::string::npos);
  CHECK(complaint(R"({"model":)" + good + R"(,"added_tokens":[{"id":500000,"content":"x"}]})")
            .find("'x' has the number 500000") != std::string::npos);
  CHECK_THROWS_AS(Charsmap("\x08\x00\x00\x00\x01", "t"), Error);
  // Each step makes twice as much of it.
  std::string doubling = R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  for (int i = 0; i < 6; ++i) doubling += "," + doubling;
  const Tokenizer grows = Tokenizer::from_file(
      with_model(good, R"("normalizer":{"type":"Sequence","normalizers":[)" + doubling + "]},"), "t.json");
  CHECK_THROWS_AS((void)grows.encode(std::string(100000, 'a'), "text"), Error);
  // Merges that lead in a circle end: each makes a text shorter.
  const Tokenizer circle = Tokenizer::from_file(
      with_model(R"({"type":"BPE","vocab":{"a":0,"aa":1,"aaa":2},"merges":["a a","aa a","a aa"]})"), "t.json");
  CHECK(circle.encode("aaaaa", "text") == std::vector<std::int32_t>{1, 2});
}

TEST_CASE("subword: a precompiled table that leads outside of itself finds nothing") {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string bytes("\x40\x00\x00\x00", 4);
    for (int k = 0; k < 80; ++k) bytes.push_back(static_cast<char>(random()));
    const Charsmap map(bytes, "t");
    for (int k = 0; k < 50; ++k) {
      const std::string text = random_text(random);
      const auto found = map.longest(text);
      CHECK((!found || found->bytes <= text.size()));
    }
  }
}
