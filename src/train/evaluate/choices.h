// Multiple choice by likelihood: a language model answers a question with the choice that it finds the likeliest behind
// it. As lm-evaluation-harness counts `acc` and `acc_norm` (Gao et al. 2021).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/progress.h"
#include "infer/generate.h"
#include "infer/model.h"
#include "registry/versions/artifacts.h"

namespace mlx::train {

struct Question {
  std::string context;
  std::vector<std::string> choices;  // at least two
  std::size_t answer = 0;
  std::string place;  // for messages: "arc.jsonl: line 3"
};

// Of JSON lines: each an object with "context" or "question", "choices" and "answer"; other keys are ignored. Throws
// kUsage, naming `what` and the line.
std::vector<Question> read_questions(std::string_view text, const std::string& what);

// How many questions are answered rightly: by the sum of the log probabilities of a choice's tokens, and by that sum
// divided by the number of its characters.
struct ChoicesScore {
  std::int64_t count = 0, correct = 0, correct_normalized = 0;
  double per_second = 0;  // questions

  double accuracy() const { return share(correct); }
  double accuracy_normalized() const { return share(correct_normalized); }

 private:
  double share(std::int64_t part) const { return static_cast<double>(part) / static_cast<double>(count); }
};
Json to_json(const ChoicesScore& score);

// Throws kUsage if the model is no language model with a tokenizer, or does not take a question. The log probabilities
// of a question's choices do not depend on the other questions.
ChoicesScore score_choices(const infer::Model& model, const std::vector<Question>& questions, Progress& progress);
// The sums of the log probabilities of each choice's tokens.
std::vector<double> log_likelihoods(infer::Generator& generator, const data::Tokenizer& tokenizer,
                                    const Question& question);

// Through the repository: a run with a key, and an attachment of the kind "choices" on the model's version.
struct ChoicesOutcome {
  bool unchanged = false, recorded = true;
  ChoicesScore score;
  Digest questions;  // of the file
  registry::Version model;
};
ChoicesOutcome evaluate_choices(registry::Repository& repository, const std::string& model, ByteView file,
                                const std::string& what, bool force, const std::string& title, kernels::Backend backend,
                                Progress& progress);

}  // namespace mlx::train
