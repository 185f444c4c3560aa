// What --grammar, --schema, --speculate, --draft and --logprobs ask of the texts that `mlx predict` writes, and what it
// tells of them. Used by predict_text.cpp and predict_chat.cpp.
#pragma once

#include <memory>
#include <set>

#include "base/json_fwd.h"
#include "cmd/predict.h"
#include "infer/text_writer.h"

namespace mlx::cmd {

// What texts of one command have in common. It outlives them.
struct Writing {
  std::int64_t logprobs = infer::kNoLogprobs;
  std::shared_ptr<infer::grammar::TokenGrammar> grammar;
  infer::Speculation speculation;
  std::unique_ptr<infer::Model> draft;
  void apply(infer::TextRequest& to) const;
};

// Throws kUsage for options that are wrong or do not go together. `ends`: the tokens that end a text. `blank`: a text
// may have a blank in front that is no part of it.
Writing writing_of(const PredictOptions& options, const PredictInputs& inputs, const std::set<std::int32_t>& ends,
                   bool blank, Context& context);

// [{"token": 5, "text": "a", "logprob": -0.5, "top": […]}]
Json to_json(const std::vector<infer::LogProbabilities>& logprobs, const PredictInputs& inputs);

// Proposed tokens, and those of them that were drawn: of texts that speculated.
struct Proposals {
  std::int64_t proposed = 0, accepted = 0;
  void add(const infer::Generated& text);
  void add_to(Json& speed) const;
  std::string text() const;  // "; 72 of 90 proposed tokens were right", or nothing
};

}  // namespace mlx::cmd
