// A model's answers for images and rows, as probabilities or numbers for people. Used by `mlx predict` and by serving.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/progress.h"
#include "data/rows.h"
#include "infer/session.h"

namespace mlx::infer {

// [count][signature().width()]: the probability of each class or label, or numbers in the data's units.
struct Answers {
  std::int64_t count = 0;
  std::vector<double> values;
};
void append_answers(const Model& model, const Logits& logits, Answers& to);

// Answers for `pixels`, images of height x width x channels bytes one after another, and for rows read by the model's
// schema. Targets are ignored. Throws kUsage for a model with another kind of input.
Answers answer_images(Session& session, ByteView pixels, Progress& progress);
Answers answer_rows(Session& session, const data::Rows& rows, Progress& progress);

std::vector<double> softmax(std::span<const float> logits);  // the maximum is subtracted first

}  // namespace mlx::infer
