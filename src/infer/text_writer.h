// A text that a language model writes: what was asked for, and how its tokens come from the model's logits, whichever
// generator computes those. Used by generate.cpp and batch_generator.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "infer/grammar/token_grammar.h"
#include "infer/sampling.h"
#include "infer/speculation.h"

namespace mlx::infer {

// A token that was drawn; its log probabilities if they were asked for.
struct Drawn {
  std::int32_t token = 0;
  const LogProbabilities* logprobs = nullptr;
};

inline constexpr std::int64_t kNoLogprobs = -1, kMostLogprobs = 100;

struct TextRequest {
  std::vector<std::int32_t> prompt;  // at least one token; of one longer than the context only the end is used
  std::int64_t count = 0;            // tokens, at most
  Sampling sampling;
  std::uint64_t sample = 0;
  std::vector<std::vector<std::int32_t>> stops;  // the text ends after any of these; empty ones: never
  std::int64_t logprobs = kNoLogprobs;           // of each token, and of so many of the likeliest
  // What the whole text must be like; null: anything. The text ends where it is whole.
  std::shared_ptr<grammar::TokenGrammar> grammar = nullptr;
  Speculation speculation{};  // changes no token
  // Gets each token when it is drawn. If it throws, the text ends with that error.
  std::function<void(const Drawn&)> emit = [](const Drawn&) {};
};

struct Generated {
  std::vector<std::int32_t> tokens;         // without the prompt
  std::vector<LogProbabilities> logprobs;   // of each token, if asked for
  bool stopped = false;                     // the tokens end with a stop sequence
  bool complete = false;                    // the grammar ended the text
  std::int64_t proposed = 0, accepted = 0;  // tokens that were computed before they were drawn, and those drawn then
  std::int64_t shared = 0;                  // tokens of the prompt that were not computed, as another text had them
};

// Whether tokens end with a stop sequence; never with an empty one.
bool ends_with(std::span<const std::int32_t> tokens, std::span<const std::int32_t> stop);

// Draws the tokens of one text one after the other. A copy draws what the text may go on with, and leaves the text as
// it is. Copies and texts of one grammar may be used by several threads at a time.
class Drawer {
 public:
  explicit Drawer(std::shared_ptr<const TextRequest> request);

  const TextRequest& request() const { return *request_; }
  // The next token, from the logits behind the last one; none if the grammar ends the text here. Throws as
  // infer::draw(), and kUsage if the grammar has no token to go on with.
  std::optional<std::int32_t> draw(std::span<const float> logits);
  bool complete() const { return complete_; }  // the grammar has ended the text
  const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  std::shared_ptr<const TextRequest> request_;
  std::optional<grammar::Matcher> matcher_;
  std::vector<std::int32_t> tokens_;
  bool complete_ = false;
};

class TextWriter {
 public:
  explicit TextWriter(TextRequest request);

  const TextRequest& request() const { return drawer_.request(); }
  const Drawer& drawer() const { return drawer_; }
  const std::vector<std::int32_t>& tokens() const { return drawer_.tokens(); }
  bool ended() const { return ended_; }

  // Draws from rows of logits: behind the last token, and behind each of `proposed` tokens, as long as these are what
  // is drawn. Returns how many tokens it has drawn. Not after ended().
  std::int64_t write(std::span<const std::span<const float>> rows, std::span<const std::int32_t> proposed = {});
  // Passes on the tokens that were drawn since the last call.
  void emit();
  Generated finish();

 private:
  bool write_one(std::span<const float> logits);  // false if no token was drawn

  Drawer drawer_;
  std::vector<LogProbabilities> logprobs_;
  std::size_t emitted_ = 0;
  std::int64_t proposed_ = 0, accepted_ = 0;
  bool stopped_ = false, ended_ = false;
};

}  // namespace mlx::infer
