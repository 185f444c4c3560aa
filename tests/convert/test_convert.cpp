// Models for other programs: which tensors and tokens they get. That the programs themselves agree is shown by
// tests/reference/export_check.py.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "../base/throws.h"
#include "../infer/language_model.h"
#include "base/json.h"
#include "convert/gguf_header.h"
#include "convert/gguf_vocabulary.h"
#include "convert/gguf_writer.h"
#include "convert/hugging_face_writer.h"
#include "convert/parts.h"
#include "formats/safetensors.h"
#include "kernels/half.h"
#include "nn/gguf_tensors.h"
#include "nn/gguf_tokenizer.h"

namespace mlx::convert {
namespace {

Bytes bytes_of(const OutsideFile& file) {
  Bytes out;
  for (const FilePiece& piece : file.pieces) {
    const Bytes made = piece.make();
    CHECK(made.size() == piece.size);
    out.insert(out.end(), made.begin(), made.end());
  }
  return out;
}

const OutsideFile& named(const WrittenModel& model, const std::string& name) {
  for (const OutsideFile& file : model.files)
    if (file.name == name) return file;
  FAIL("no file " << name);
  return model.files.at(0);
}

std::vector<float> floats_of(ByteView bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

std::vector<float> weights_of(const nn::Model& model, const std::string& name) {
  return floats_of(model.weights->find(name)->data());
}

// The numbers of a tensor of a safetensors file in f32.
std::vector<float> numbers_in(const Bytes& file, const std::string& name) {
  for (const formats::SafetensorsEntry& entry : formats::parse_safetensors(file, file.size()).tensors)
    if (entry.name == name) return floats_of(ByteView(file).subspan(entry.begin, entry.end - entry.begin));
  FAIL("no tensor " << name);
  return {};
}

Part part_of(const std::vector<float>& numbers) {
  kernels::Shape shape;
  shape.rank = 1, shape.dims[0] = static_cast<std::int64_t>(numbers.size());
  const auto bytes = std::make_shared<Bytes>(shape.bytes());
  std::memcpy(bytes->data(), numbers.data(), bytes->size());
  return {"norm", "norm", {shape.dims[0]}, std::make_shared<const graph::Weight>(shape, *bytes, graph::Backing{bytes})};
}

TEST_CASE("convert: a llama's layers are cut into those of transformers, and its rows are paired in GGUF files") {
  const nn::Model model = infer::test::model_of("llama");  // width 32, 4 heads, 2 of keys, 8 wide
  const WrittenModel folder = hugging_face_folder(model, {}, "lm@v1");
  CHECK(folder.architecture == "LlamaForCausalLM");
  const Json config = parse_json(as_text(bytes_of(named(folder, "config.json"))), "config.json");
  CHECK(config["num_key_value_heads"] == 2);
  CHECK(config["torch_dtype"] == "float32");
  CHECK(config["eos_token_id"].is_null());
  const Bytes file = bytes_of(named(folder, "model.safetensors"));
  const std::vector<float> qkv = weights_of(model, "block1.attention.qkv.weight");
  const std::vector<float> keys = numbers_in(file, "model.layers.1.self_attn.k_proj.weight");
  REQUIRE(keys.size() == 16 * 32);
  CHECK(std::equal(keys.begin(), keys.end(), qkv.begin() + 32 * 32));

  const Bytes whole = bytes_of(gguf_file(model, {}, "lm@v1", "lm.gguf").files.at(0));
  const nn::GgufTensors tensors = nn::read_gguf_tensors(whole, "lm.gguf");
  const std::vector<float> paired = floats_of(tensors.tensors.at("blk.1.attn_k.weight").bytes);
  for (std::int64_t row = 0; row < 16; ++row) {
    const std::int64_t in_head = row % 8, there = row - in_head + 2 * (in_head % 4) + in_head / 4;
    CHECK(std::equal(keys.begin() + row * 32, keys.begin() + (row + 1) * 32, paired.begin() + there * 32));
  }
  CHECK(tensors.tensors.contains("output.weight"));
  std::vector<std::string_view> said;
  REQUIRE(formats::gguf_strings(tensors.metadata.at("tokenizer.ggml.model"), said));
  CHECK(said.at(0) == "none");
}

TEST_CASE("convert: matrices of GPT-2 have a row for each input, and its final layer is the embedding") {
  const nn::Model model = infer::test::model_of("gpt2");
  const Bytes file = bytes_of(named(hugging_face_folder(model, {}, "lm"), "model.safetensors"));
  const std::vector<float> up = weights_of(model, "block0.mlp.up.weight"),  // [128, 32]
      theirs = numbers_in(file, "transformer.h.0.mlp.c_fc.weight");
  REQUIRE(theirs.size() == up.size());
  for (std::size_t row = 0; row < 128; ++row)
    for (std::size_t i = 0; i < 32; ++i) CHECK(theirs[i * 128 + row] == up[row * 32 + i]);
  for (const formats::SafetensorsEntry& entry : formats::parse_safetensors(file, file.size()).tensors)
    CHECK(entry.name != "lm_head.weight");
}

TEST_CASE("convert: shards hold as much as they may, and an index names them all") {
  WriteOptions options;
  options.shard = 20000;
  options.dtype = kernels::DType::kBF16;
  const WrittenModel folder = hugging_face_folder(infer::test::model_of("gpt2"), options, "lm");
  const Json index = parse_json(as_text(bytes_of(named(folder, "model.safetensors.index.json"))), "index");
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  for (const OutsideFile& file : folder.files) {
    if (!file.name.ends_with(".safetensors")) continue;
    const Bytes shard = bytes_of(file);
    const formats::SafetensorsHeader header = formats::parse_safetensors(shard, shard.size());
    CHECK(header.metadata.at(0).second == "pt");
    CHECK((header.tensors.size() == 1 || shard.size() - header.data_begin <= options.shard));
    for (const formats::SafetensorsEntry& entry : header.tensors) {
      CHECK(entry.dtype == "BF16");
      CHECK(index["weight_map"][entry.name] == file.name);
      bytes += entry.end - entry.begin, ++tensors;
    }
  }
  CHECK(tensors == folder.tensors);
  CHECK(index["weight_map"].size() == tensors);
  CHECK(index["metadata"]["total_size"] == bytes);
}

TEST_CASE("convert: bug: numbers that f16 cannot hold became infinite") {
  const Part large = part_of({1, 70000});
  CHECK_THROWS_WITH_AS(numbers_of(large, kernels::DType::kF16), "'norm' has 70000, which f16 cannot hold", Error);
  CHECK(numbers_of(large, kernels::DType::kBF16).size() == 4);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(numbers_of(part_of({infinity, 1}), kernels::DType::kF16).size() == 4);  // it was infinite before
}

TEST_CASE("convert: what is 1 less elsewhere is in the type of its kin where that loses nothing") {
  const auto less_one = [](const std::vector<float>& numbers) {
    Part part = part_of(numbers);
    part.plus_one = true;
    return part;
  };
  std::vector<float> ones;
  for (const float x : {0.0f, 1.5f, -0.75f, 0.0078125f, -3.0f, 52.0f, 1e-5f, -1e-9f})
    ones.push_back(1 + kernels::widen(kernels::to_bf16(x)));
  const Part part = less_one(ones);
  CHECK(own_type(part, kernels::DType::kBF16) == kernels::DType::kBF16);
  const Bytes written = numbers_of(part, kernels::DType::kBF16);
  for (std::size_t i = 0; i < ones.size(); ++i)
    CHECK(1 + kernels::widen(kernels::BF16{load_little_endian<std::uint16_t>(written.data() + 2 * i)}) == ones[i]);
  CHECK(own_type(less_one({1.3f, 0.9f}), kernels::DType::kBF16) == kernels::DType::kF32);
}

TEST_CASE("convert: metadata of GGUF files are read as they were written") {
  GgufHeader header;
  header.add("a.text", "ü");
  header.add("a.count", std::uint32_t{7});
  header.add("a.number", 0.5f);
  header.add("a.flag", true);
  header.add("a.texts", std::vector<std::string>{"x", "", "yz"});
  header.add("a.integers", std::vector<std::int32_t>{-1, 5});
  header.add("a.numbers", std::vector<float>{-2.5f});
  header.add("a.none", std::vector<std::string>{});
  header.add_tensor("first", {2, 3}, 0, 24);
  header.add_tensor("second", {5}, 1, 10);
  Bytes file = header.finish();
  CHECK(file.size() % GgufHeader::kAlignment == 0);
  const std::size_t start = file.size();
  file.resize(start + 64);
  const formats::GgufHeader read = formats::parse_gguf(file, file.size());
  REQUIRE(read.tensors.size() == 2);
  CHECK(read.tensors[0].shape == std::vector<std::uint64_t>{3, 2});
  CHECK(read.tensors[0].begin == start);
  CHECK(read.tensors[1].begin == start + 32);
  CHECK(read.tensors[1].end == start + 42);
  const formats::GgufMetadata metadata = formats::read_gguf_metadata(file);
  std::vector<std::string_view> texts;
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  CHECK(
      (formats::gguf_strings(metadata.at("a.texts"), texts) && texts == std::vector<std::string_view>{"x", "", "yz"}));
  CHECK((formats::gguf_strings(metadata.at("a.none"), texts) && texts.empty()));
  CHECK((formats::gguf_integers(metadata.at("a.integers"), integers) && integers == std::vector<std::int64_t>{-1, 5}));
  CHECK((formats::gguf_integers(metadata.at("a.count"), integers) && integers.at(0) == 7));
  CHECK((formats::gguf_integers(metadata.at("a.flag"), integers) && integers.at(0) == 1));
  CHECK((formats::gguf_numbers(metadata.at("a.numbers"), numbers) && numbers.at(0) == -2.5));
}

TEST_CASE("convert: characters are put together of their bytes, and rows without a token get names of their own") {
  const GgufVocabulary vocabulary = gguf_vocabulary(data::Tokenizer::chars("a é中[PAD4]", "text"), 12, "lm");
  CHECK(vocabulary.model == "gpt2");
  CHECK(vocabulary.names.size() == 12);
  CHECK(vocabulary.names.at(0) == "\xC4\xA0");  // the blank
  CHECK(vocabulary.types.at(0) == nn::kNormalToken);
  CHECK(vocabulary.types.back() == nn::kUnusedToken);
  CHECK(vocabulary.names.back() == "[PAD11]");
  CHECK(vocabulary.merges.size() == 3);  // one for two bytes, two for three
}

std::string byte_level(const char* pattern, const char* normalizer, bool whole) {
  return R"({"version":"1.0","added_tokens":[{"id":2,"content":"<|end|>","special":true,"normalized":false,"single_word":false,"lstrip":false,"rstrip":false}],"normalizer":)" +
         std::string(normalizer) +
         R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
         canonical(Json(pattern)) +
         R"(},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},"model":{"type":"BPE","dropout":null,"unk_token":null,"ignore_merges":)" +
         (whole ? "true" : "false") + R"(,"vocab":{"a":0,"b":1,"ab":3},"merges":[["a","b"]]}})";
}

TEST_CASE("convert: tokenizers are called by the name that llama.cpp has for the way they cut words") {
  const auto pre_of = [](const char* pattern, const char* normalizer, bool whole) {
    const data::Tokenizer tokenizer =
        data::Tokenizer::from_file(byte_level(pattern, normalizer, whole), "tokenizer.json");
    return gguf_vocabulary(tokenizer, tokenizer.size(), "lm");
  };
  const auto cuts = nn::gguf_cuttings();
  const auto pattern_of = [&](std::string_view name) {
    for (const nn::GgufCutting& cut : cuts)
      if (name == cut.name) return cut.pattern;
    return static_cast<const char*>(nullptr);
  };
  const GgufVocabulary llama = pre_of(pattern_of("llama-bpe"), "null", true);
  CHECK(llama.pre == "llama-bpe");
  CHECK(llama.names == std::vector<std::string>{"a", "b", "<|end|>", "ab"});
  CHECK(llama.types ==
        std::vector<std::int32_t>{nn::kNormalToken, nn::kNormalToken, nn::kControlToken, nn::kNormalToken});
  CHECK(llama.merges == std::vector<std::string>{"a b"});
  CHECK(pre_of(pattern_of("llama-bpe"), "null", false).pre == "dbrx");  // words are always merged
  CHECK(pre_of(pattern_of("qwen2"), R"({"type":"NFC"})", false).pre == "qwen2");
  CHECK_THROWS_WITH_AS(pre_of("[a-z]+", "null", false), doctest::Contains("cuts words"), Error);
  CHECK_THROWS_WITH_AS(pre_of(pattern_of("llama-bpe"), R"({"type":"NFC"})", true), doctest::Contains("cuts words"),
                       Error);
}

}  // namespace
}  // namespace mlx::convert
