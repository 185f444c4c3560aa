// GGUF models: blocks stand for the numbers of the format's definition, metadata for the configuration of a folder, and
// tokenizers for a tokenizer.json. tests/reference/gguf_check.py compares whole models with other programs.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>

#include "../base/throws.h"
#include "base/json.h"
#include "data/tokenizer.h"
#include "kernels/half.h"
#include "nn/gguf_blocks.h"
#include "nn/gguf_config.h"
#include "nn/gguf_tokenizer.h"

using namespace mlx;
using namespace mlx::nn;
using formats::GgufKind;

namespace {

// A block of a type: its bytes count up from 0, and its scales are `scale` and `low`.
Bytes block_of(const GgufType& type, float scale, float low) {
  Bytes block(static_cast<std::size_t>(type.bytes));
  std::iota(block.begin(), block.end(), std::uint8_t{0});
  const auto put = [&](std::int64_t at, float number) {
    const std::uint16_t bits = kernels::to_f16(number).bits;
    std::memcpy(block.data() + at, &bits, sizeof bits);
  };
  put(type.scale, scale);
  if (type.low != 0) put(type.low, low);
  return block;
}

std::vector<float> numbers_of(std::uint32_t number, float scale, float low = 0) {
  const GgufType& type = *find_gguf_type(number);
  std::vector<float> out(static_cast<std::size_t>(type.elements));
  expand_blocks(type, block_of(type, scale, low), out.data());
  return out;
}

// Metadata that own their bytes.
struct Metadata {
  std::vector<std::unique_ptr<Bytes>> held;
  formats::GgufMetadata values;

  void put(const std::string& key, GgufKind kind, bool array, std::uint64_t count, ByteWriter& bytes) {
    held.push_back(std::make_unique<Bytes>(bytes.take()));
    values[key] = {kind, array, count, *held.back()};
  }
  void integer(const std::string& key, std::uint32_t value) {
    ByteWriter bytes;
    bytes.u32(value);
    put(key, GgufKind::kU32, false, 1, bytes);
  }
  void number(const std::string& key, float value) {
    ByteWriter bytes;
    bytes.u32(std::bit_cast<std::uint32_t>(value));
    put(key, GgufKind::kF32, false, 1, bytes);
  }
  void strings(const std::string& key, const std::vector<std::string>& texts, bool array = true) {
    ByteWriter bytes;
    for (const std::string& text : texts) bytes.u64(text.size()), bytes.raw(as_bytes(text));
    put(key, GgufKind::kString, array, texts.size(), bytes);
  }
  void numbers(const std::string& key, const std::vector<float>& list) {
    ByteWriter bytes;
    for (const float value : list) bytes.u32(std::bit_cast<std::uint32_t>(value));
    put(key, GgufKind::kF32, true, list.size(), bytes);
  }
};

Metadata llama_metadata() {
  Metadata metadata;
  metadata.strings("general.architecture", {"llama"}, false);
  metadata.integer("llama.context_length", 64);
  metadata.integer("llama.embedding_length", 16);
  metadata.integer("llama.feed_forward_length", 24);
  metadata.integer("llama.block_count", 2);
  metadata.integer("llama.attention.head_count", 4);
  metadata.integer("llama.attention.head_count_kv", 2);
  return metadata;
}

GgufFacts facts(const std::set<std::string>& tensors = {"output.weight"}) {
  return {40, [tensors](std::string_view name) { return tensors.contains(std::string(name)); }, {}};
}

DecoderConfig read_metadata(const Metadata& metadata, const GgufFacts& given = facts()) {
  return read_decoder_config(read_gguf_config(metadata.values, given, "lm.gguf"), 0, "lm.gguf");
}

}  // namespace

TEST_CASE("gguf blocks: integers in groups are kept without a loss") {
  std::array<std::int8_t, 32> q{};
  const GgufType &eight = *find_gguf_type(8), &five = *find_gguf_type(6), &four = *find_gguf_type(2);
  const Bytes of_eight = block_of(eight, 0.5f, 0);
  CHECK(kernels::widen(kernels::F16{integers_of_block(eight, of_eight.data(), q.data())}) == 0.5f);
  for (int i = 0; i < 32; ++i) CHECK(q[static_cast<std::size_t>(i)] == i + 2);
  integers_of_block(four, block_of(four, 1, 0).data(), q.data());  // bytes 2 … 17: first halves, then second ones
  CHECK(q[0] == 2 - 8);
  CHECK(q[13] == 15 - 8);
  CHECK(q[14] == -8);
  CHECK(q[16] == -8);
  CHECK(q[30] == 1 - 8);
  Bytes of_five = block_of(five, 1, 0);
  for (std::size_t i = 2; i < 6; ++i) of_five[i] = 0;
  of_five[2] = 1, of_five[5] = 128;  // the fifth bits of the first and of the last
  integers_of_block(five, of_five.data(), q.data());
  CHECK(q[0] == 6 + 16 - 16);
  CHECK(q[1] == 7 - 16);
  CHECK(q[31] == (21 >> 4) + 16 - 16);
}

TEST_CASE("gguf blocks: what others expand, by hand") {
  CHECK(numbers_of(3, 2, 1)[0] == 4 * 2.0f + 1);        // Q4_1: byte 4
  CHECK(numbers_of(3, 2, 1)[31] == 1 * 2.0f + 1);       // the upper half of byte 19
  CHECK(numbers_of(7, 2, 1)[0] == (8 + 0) * 2.0f + 1);  // Q5_1: byte 8, fifth bits 0x07060504
  CHECK(numbers_of(7, 2, 1)[2] == (10 + 16) * 2.0f + 1);
  CHECK(numbers_of(10, 1, 1)[0] == 0.0f);              // Q2_K: scale byte 0
  CHECK(numbers_of(10, 1, 1)[16] == 1.0f * (32 & 3));  // scale byte 1; byte 16 + 16
  CHECK(numbers_of(10, 1, 1)[17] == 1.0f * (33 & 3));
  CHECK(numbers_of(11, 1)[0] == ((96 & 15) | (104 & 3) << 4) * 1.0f * ((32 & 3) - 4) - 32.0f * ((32 & 3) - 4));
  CHECK(numbers_of(12, 1, 1)[0] == (4 & 63) * 1.0f * (16 & 15) - (8 & 63));  // Q4_K
  CHECK(numbers_of(12, 1, 1)[33] == (5 & 63) * 1.0f * (17 >> 4) - (9 & 63));
  CHECK(numbers_of(13, 1, 1)[0] == (4 & 63) * 1.0f * ((48 & 15) + 16 * (16 & 1)) - (8 & 63));  // Q5_K
  CHECK(numbers_of(14, 1)[1] ==
        192 * 1.0f * 0 + static_cast<std::int8_t>(192) * 1.0f * (((1 & 15) | (129 & 3) << 4) - 32));
  CHECK(numbers_of(1, 1.5f)[0] == 1.5f);
  CHECK(find_gguf_type(9) == nullptr);
  CHECK(gguf_type_name(9) == "Q8_1");
  CHECK(gguf_type_name(1000) == "type 1000");
  const GgufType& low = *find_gguf_type(3);
  CHECK(finite_scales(low, block_of(low, 1, 1)));
  CHECK_FALSE(finite_scales(low, block_of(low, 1, 1e9f)));
}

TEST_CASE("gguf config: metadata of a llama, its defaults and its scalings") {
  const DecoderConfig config = read_metadata(llama_metadata());
  CHECK(config.architecture == "LlamaForCausalLM");
  CHECK(config.vocabulary == 40);
  CHECK(config.head == 4);
  CHECK(config.kv_heads == 2);
  CHECK(config.blocks[0].rope.theta == 10000.0f);
  CHECK_FALSE(config.tie);
  CHECK(read_metadata(llama_metadata(), facts({})).tie);
  CHECK(read_metadata(llama_metadata(), facts({"output.weight", "blk.0.attn_q.bias"})).qkv_bias);
  Metadata scaled = llama_metadata();
  scaled.strings("llama.rope.scaling.type", {"linear"}, false);
  scaled.number("llama.rope.scaling.factor", 4);
  CHECK(read_metadata(scaled).blocks[0].rope.slow == 4.0f);
  // bug: a factor beside "none" scaled.
  scaled.strings("llama.rope.scaling.type", {"none"}, false);
  CHECK(read_metadata(scaled).blocks[0].rope.slow == 1.0f);
  Metadata older = llama_metadata();
  older.number("llama.rope.scale_linear", 4);
  CHECK(read_metadata(older).blocks[0].rope.slow == 4.0f);
  Metadata long_context = llama_metadata();
  GgufFacts factors = facts();
  factors.rope_factors = {1, 1};  // in 8192 positions both pairs turn often
  CHECK(read_metadata(long_context, factors).blocks[0].rope.long_context == 8192);
  factors.rope_factors = {1, 2};
  CHECK(contains(error_of([&] { read_metadata(long_context, factors); }).message,
                 "'rope_freqs.weight' with other factors"));
  CHECK(gguf_tensor_name("model.layers.12.self_attn.q_proj.bias", config) == "blk.12.attn_q.bias");
  CHECK(gguf_tensor_name("h.3.attn.c_attn.weight", config) == "blk.3.attn_qkv.weight");
  CHECK(gguf_tensor_name("lm_head.weight", config) == "output.weight");
}

TEST_CASE("gguf config: Gemma's scores are scaled by the width of a head, but in the largest models") {
  const auto gemma = [](const char* name, std::uint32_t layers) {
    Metadata metadata;
    metadata.strings("general.architecture", {name}, false);
    const std::string prefix = std::string(name) + ".";
    metadata.integer(prefix + "context_length", 8192);
    metadata.integer(prefix + "embedding_length", 64);
    metadata.integer(prefix + "feed_forward_length", 24);
    metadata.integer(prefix + "block_count", layers);
    metadata.integer(prefix + "attention.head_count", 4);
    metadata.integer(prefix + "attention.key_length", 64);
    return read_metadata(metadata, facts({}));
  };
  const DecoderConfig small = gemma("gemma3", 26), large = gemma("gemma3", 62), second = gemma("gemma2", 46);
  CHECK(small.blocks[0].sharpness == 1.0f);
  CHECK(large.blocks[0].sharpness == 2.0f);  // 16 instead of 64
  CHECK(second.blocks[0].sharpness == 2.0f);
  CHECK(small.blocks[0].window == 4096);
  CHECK(small.blocks[5].window == 0);
  CHECK(small.tie);
  CHECK(gguf_tensor_name("model.layers.0.post_attention_layernorm.weight", small) ==
        "blk.0.post_attention_norm.weight");
  CHECK(gguf_tensor_name("model.layers.0.pre_feedforward_layernorm.weight", small) == "blk.0.ffn_norm.weight");
}

TEST_CASE("gguf config: what is not known is refused, and values have their types") {
  Metadata other = llama_metadata();
  other.integer("llama.something", 3);
  CHECK(contains(error_of([&] { read_metadata(other); }).message, "the key 'llama.something' is not known"));
  Metadata text = llama_metadata();
  text.strings("llama.block_count", {"2"}, false);
  CHECK(contains(error_of([&] { read_metadata(text); }).message, "'llama.block_count': expected an integer"));
  Metadata list = llama_metadata();
  list.numbers("llama.rope.freq_base", {1, 2});
  CHECK(error_of([&] { read_metadata(list); }).kind == ErrorKind::kCorrupt);
  Metadata heads = llama_metadata();
  heads.integer("llama.attention.head_count", 3);
  CHECK(error_of([&] { read_metadata(heads); }).kind == ErrorKind::kCorrupt);
}

TEST_CASE("gguf tokenizer: scores become merges, and words are cut by name") {
  Metadata pieces;
  pieces.strings("tokenizer.ggml.model", {"llama"}, false);
  pieces.strings("tokenizer.ggml.tokens",
                 {"<unk>", "<s>", "\xE2\x96\x81", "a", "b", "ab", std::string("\xE2\x96\x81") + "a"});
  pieces.numbers("tokenizer.ggml.scores", {0, 0, -5, -6, -7, -2, -1});
  pieces.integer("tokenizer.ggml.bos_token_id", 1);
  pieces.integer("tokenizer.ggml.unknown_token_id", 0);
  const auto text = read_gguf_tokenizer(pieces.values, "lm.gguf");
  REQUIRE(text);
  const data::Tokenizer tokenizer = data::Tokenizer::from_file(*text, "lm.gguf");
  CHECK(tokenizer.encode_placed("ab b", "text", true).ids == std::vector<std::int32_t>{1, 6, 4, 2, 4});

  Metadata bytes;
  bytes.strings("tokenizer.ggml.model", {"gpt2"}, false);
  bytes.strings("tokenizer.ggml.pre", {"qwen2"}, false);
  bytes.strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<e>"});
  bytes.strings("tokenizer.ggml.merges", {"a b"});
  CHECK(data::Tokenizer::from_file(*read_gguf_tokenizer(bytes.values, "lm.gguf"), "lm.gguf").encode("abab", "text") ==
        std::vector<std::int32_t>{2, 2});
  bytes.strings("tokenizer.ggml.pre", {"other"}, false);
  CHECK(contains(error_of([&] { (void)read_gguf_tokenizer(bytes.values, "lm.gguf"); }).message,
                 "'other' is not supported"));
  CHECK_FALSE(read_gguf_tokenizer({}, "lm.gguf"));
}

TEST_CASE("gguf tokenizer: bug: a vocabulary took time by the square of its tokens") {
  std::vector<std::string> tokens(200'000);  // the square of it is minutes
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::to_string(i);
  Metadata bytes;
  bytes.strings("tokenizer.ggml.model", {"gpt2"}, false);
  bytes.strings("tokenizer.ggml.pre", {"qwen2"}, false);
  bytes.strings("tokenizer.ggml.tokens", tokens);
  bytes.strings("tokenizer.ggml.merges", {});
  CHECK(contains(read_gguf_tokenizer(bytes.values, "lm.gguf").value_or(""), "\"199999\":199999"));
  tokens.back() = "7";
  bytes.strings("tokenizer.ggml.tokens", tokens);
  CHECK(contains(error_of([&] { (void)read_gguf_tokenizer(bytes.values, "lm.gguf"); }).message,
                 "the token '7' is there twice"));
}
