// What the kinds of `mlx predict` share: predict.cpp reads the options and asks the kind that the model is of, one file
// each.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cmd/asked_model.h"
#include "cmd/cli/cli.h"
#include "infer/model.h"
#include "infer/sampling.h"

namespace mlx::cmd {

inline constexpr std::int64_t kNotGiven = std::numeric_limits<std::int64_t>::min();

struct PredictOptions {
  std::string model, device;
  // Images and rows.
  std::vector<std::string> inputs;
  std::string split = "test", out;
  std::int64_t top = 1;
  // Text.
  std::string prompt, tokens, logits;
  std::vector<std::string> stops;
  std::int64_t max_tokens = 200, top_k = 0, seed = 1, count = 1;
  double temperature = 0.8, top_p = 1, min_p = 0, typical = 1, repetition = 1, frequency = 0, presence = 0;
  std::vector<std::string> bias;  // "42=-100"
  std::string embed, pooling;
  bool normalize = false, truncate = false;
  std::int64_t logprobs = kNotGiven;
  std::string grammar, schema, speculate, draft;
  std::string cache;  // "": f32
  bool chat = false;
  std::string system;
};

struct PredictInputs {
  const registry::Version& version;
  const infer::Model& model;
};

int predict_images(const PredictOptions& options, const PredictInputs& inputs, Context& context);
int predict_rows(const PredictOptions& options, const PredictInputs& inputs, Context& context);
// The prompt of a language model: --tokens, --prompt or standard input.
struct Prompt {
  std::string text;  // "" for --tokens
  std::vector<std::int32_t> tokens;
};
Prompt prompt_of(const PredictOptions& options, const PredictInputs& inputs, Context& context);
// The type of keys and values that --cache asks for.
inline kernels::DType cache_of(const PredictOptions& options) {
  return options.cache.empty() ? kernels::DType::kF32 : infer::cache_named(options.cache);
}
std::int64_t vocabulary_of(const infer::Model& model);                                             // of one of text
std::vector<std::int32_t> given_tokens(const PredictOptions& options, std::int64_t vocabulary);    // --tokens
int predict_logits(const PredictOptions& options, const PredictInputs& inputs, Context& context);  // --logits
// An INPUT that holds text. Throws kNotFound with a hint at --prompt, for those who wrote the text itself.
std::string read_text_file(const std::string& input, std::size_t most, Context& context);
int predict_embed(const PredictOptions& options, AskedModel asked, Context& context);  // --embed
int predict_text(const PredictOptions& options, const PredictInputs& inputs, Context& context);
int predict_chat(const PredictOptions& options, const PredictInputs& inputs, Context& context);  // --chat
infer::Sampling checked_sampling(const PredictOptions& options);  // kUsage for what is out of range

}  // namespace mlx::cmd
