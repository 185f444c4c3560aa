// Tokenizers out of vocab.json and merges.txt, and out of vocab.txt. tests/reference/vocabulary_files_check.py compares
// what is made of them with `transformers`.
#include "nn/vocabulary_files.h"

#include <doctest/doctest.h>

#include <map>

#include "base/error.h"
#include "data/tokenizer.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

using InFolder = std::map<std::string, std::string>;

std::optional<std::string> made_of(const InFolder& files, const std::string& architecture) {
  const auto read = [&](const std::string& name) {
    const auto found = files.find(name);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  return tokenizer_of_vocabulary_files(read, architecture, "theirs");
}

std::vector<std::int32_t> tokens_of(const InFolder& files, const std::string& architecture, const std::string& text) {
  const data::Tokenizer tokenizer = data::Tokenizer::from_file(made_of(files, architecture).value(), "theirs");
  return tokenizer.encode_placed(text, "the text", true).ids;
}

std::string refusal_of(const InFolder& files, const std::string& architecture, ErrorKind kind) {
  try {
    (void)made_of(files, architecture);
  } catch (const Error& error) {
    CHECK(error.kind == kind);
    return error.message;
  }
  return "it was read";
}

using Ids = std::vector<std::int32_t>;

InFolder gpt2_files() {
  return {{"vocab.json", R"({"<|endoftext|>": 0, "a": 1, "b": 2, "Ġ": 3, "ab": 4, "Ġab": 5})"},
          {"merges.txt", "#version: 0.2\na b\r\nĠ ab\n"}};
}

InFolder bert_files() {
  return {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nmill \r\n##s\ncafe\nMill\n"}};
}

}  // namespace

TEST_CASE("a folder without a vocabulary has no tokenizer") {
  CHECK(!made_of({}, "GPT2LMHeadModel"));
  CHECK(!made_of({{"merges.txt", "a b"}, {"added_tokens.json", "{}"}}, "GPT2LMHeadModel"));
}

TEST_CASE("vocab.json and merges.txt: GPT-2, with tokens that the files beside them say") {
  CHECK(tokens_of(gpt2_files(), "GPT2LMHeadModel", "ab ab<|endoftext|>b") == Ids{4, 5, 0, 2});
  InFolder files = gpt2_files();
  files["tokenizer_config.json"] =
      R"({"tokenizer_class": "GPT2TokenizerFast", "add_bos_token": true, "add_prefix_space": true})";
  CHECK(tokens_of(files, "LlamaForCausalLM", "ab") == Ids{0, 5});
  files = gpt2_files();
  files["special_tokens_map.json"] = R"({"pad_token": {"content": "<pad>", "lstrip": true}})";
  files["added_tokens.json"] = R"({"<two>": 7, "<one>": 6})";
  CHECK(tokens_of(files, "GPT2LMHeadModel", "ab <two><pad><one>") == Ids{4, 3, 7, 8, 6});
  CHECK(tokens_of(files, "GPT2LMHeadModel", "ab <pad>") == Ids{4, 8});
  // added_tokens_decoder is newer than both.
  files["tokenizer_config.json"] =
      R"({"added_tokens_decoder": {"6": {"content": "b", "special": false}}, "extra_special_tokens": ["<x>"]})";
  CHECK(refusal_of(files, "GPT2LMHeadModel", ErrorKind::kCorrupt).find("'b' has the number 6") != std::string::npos);
  files["tokenizer_config.json"] =
      R"({"added_tokens_decoder": {"6": {"content": "aa", "special": false}}, "extra_special_tokens": ["<x>"]})";
  CHECK(tokens_of(files, "GPT2LMHeadModel", "aaa<x>") == Ids{6, 1, 7});
}

TEST_CASE("vocab.json and merges.txt: RoBERTa puts its tokens around a text, Qwen2 composes characters") {
  InFolder files{
      {"vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "a": 5, "Ã": 6, "©": 7})"},
      {"merges.txt", ""}};
  CHECK(tokens_of(files, "RobertaModel", "a<mask>") == Ids{0, 5, 4, 2});
  CHECK(tokens_of(files, "RobertaModel", "e\xCC\x81") == Ids{0, 2});
  files["tokenizer_config.json"] = R"({"tokenizer_class": "Qwen2Tokenizer"})";
  CHECK(tokens_of(files, "RobertaModel", "e\xCC\x81") == Ids{6, 7});
  files["tokenizer_config.json"] = R"({"cls_token": null})";
  CHECK(refusal_of(files, "RobertaModel", ErrorKind::kUsage).find("without a 'cls_token'") != std::string::npos);
}

TEST_CASE("vocab.txt: BERT, with letters as they are or small") {
  CHECK(tokens_of(bert_files(), "BertModel", "Mills caf\xC3\xA9 x [MASK]") == Ids{2, 5, 6, 7, 1, 4, 3});
  InFolder files = bert_files();
  files["tokenizer_config.json"] = R"({"do_lower_case": false, "strip_accents": null})";
  CHECK(tokens_of(files, "DistilBertModel", "Mills caf\xC3\xA9") == Ids{2, 8, 6, 1, 3});
  files["added_tokens.json"] = R"({"a x": 9})";
  CHECK(tokens_of(files, "BertModel", "mill a x") == Ids{2, 5, 9, 3});
}

TEST_CASE("a word that is there twice has the number of its last line, and then nothing can be added") {
  InFolder files = bert_files();
  files["vocab.txt"] += "mill\n";
  CHECK(tokens_of(files, "BertModel", "mill") == Ids{2, 9, 3});
  files["special_tokens_map.json"] = R"({"bos_token": "<new>"})";
  CHECK(refusal_of(files, "BertModel", ErrorKind::kCorrupt).find("whose numbers have gaps") != std::string::npos);
}

TEST_CASE("files that do not fit are refused by name") {
  const auto refused = [](InFolder files, const char* name, const std::string& text, ErrorKind kind, const char* why) {
    files[name] = text;
    const std::string message = refusal_of(files, files.contains("vocab.txt") ? "BertModel" : "GPT2LMHeadModel", kind);
    INFO(message);
    CHECK(message.find(why) != std::string::npos);
  };
  constexpr ErrorKind kCorrupt = ErrorKind::kCorrupt, kUsage = ErrorKind::kUsage;
  const char* const config = "tokenizer_config.json";
  refused(gpt2_files(), config, R"({"tokenizer_class": "CLIPTokenizer"})", kUsage, "'CLIPTokenizer' is not supported");
  refused(gpt2_files(), config, R"({"tokenizer_class": "BertTokenizer"})", kUsage, "'BertTokenizer' is not supported");
  refused(bert_files(), config, R"({"tokenizer_class": "GPT2Tokenizer"})", kUsage,
          "vocab.txt: the tokenizer 'GPT2Tokenizer'");
  refused(gpt2_files(), config, R"({"tokenizer_class": 3})", kCorrupt, "tokenizer_class");
  refused(gpt2_files(), config, "[]", kCorrupt, "expected an object");
  refused(gpt2_files(), config, R"({"bos_token": 3})", kCorrupt, "neither a text nor an object");
  refused(gpt2_files(), config, R"({"bos_token": ""})", kCorrupt, "a token is empty");
  refused(gpt2_files(), config, R"({"bos_token": {"content": 1}})", kCorrupt, "content");
  refused(gpt2_files(), config, R"({"added_tokens_decoder": {"-1": "a"}})", kCorrupt, "'-1' is no number");
  refused(gpt2_files(), config, R"({"added_tokens_decoder": {"99999999999999999999": "a"}})", kCorrupt, "is no number");
  refused(gpt2_files(), config, R"({"added_tokens_decoder": {"9": "new"}})", kCorrupt, "'new' has the number 9");
  refused(gpt2_files(), config, R"({"add_prefix_space": "yes"})", kCorrupt, "add_prefix_space");
  refused(gpt2_files(), "vocab.json", "[1]", kCorrupt, "vocab.json: expected an object");
  refused(gpt2_files(), "merges.txt", "a b\na b c\n", kCorrupt, "merges.txt: line 2");
  refused(gpt2_files(), "added_tokens.json", R"({"x": "y"})", kCorrupt, "'x' has no number");
  refused(bert_files(), config, R"({"strip_accents": 1})", kCorrupt, "strip_accents");
  InFolder bare = gpt2_files();
  bare.erase("merges.txt");
  CHECK(refusal_of(bare, "GPT2LMHeadModel", ErrorKind::kNotFound).find("no merges.txt") != std::string::npos);
  CHECK(refusal_of(gpt2_files(), "LlamaForCausalLM", kUsage).find("of LlamaForCausalLM is not") != std::string::npos);
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += (i == 0 ? "" : ",") + ("\"k" + std::to_string(i)) + "\":\"a\"";
  refused(gpt2_files(), "special_tokens_map.json", many + "}", kCorrupt, "there are 5000 keys");
  // Each is looked for among thousands.
  std::string equal = R"({"extra_special_tokens": [)";
  for (int i = 0; i < 5000; ++i) equal += i == 0 ? "\"x\"" : ",\"x\"";
  refused(gpt2_files(), config, equal + "]}", kCorrupt, "'extra_special_tokens' has 5000 tokens");
  // Numbers of tokens are checked where the whole is read.
  for (const char* const number : {"-1", "9223372036854775807", "18446744073709551615", "1.5", "\"a\""}) {
    InFolder files = gpt2_files();
    files["vocab.json"] =
        R"({"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "Ġab": )" + std::string(number) + "}";
    CHECK_THROWS_AS((void)tokens_of(files, "GPT2LMHeadModel", "a"), Error);
  }
}
