// What a model says of images and rows, as people read it. Used by `mlx predict` and by serving.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/progress.h"
#include "data/rows.h"
#include "infer/session.h"

namespace mlx::infer {

// [count][signature().width()]: the probability of each class or of each label, or the numbers in the units of the
// data.
struct Answers {
  std::int64_t count = 0;
  std::vector<double> values;
};
void append_answers(const Model& model, const Logits& logits, Answers& to);

// Of images one behind another, height x width x channels bytes each, and of rows that the model's schema has read.
// Their targets are not looked at. kUsage for a model that takes something else.
Answers answer_images(Session& session, ByteView pixels, Progress& progress);
Answers answer_rows(Session& session, const data::Rows& rows, Progress& progress);

std::vector<double> softmax(std::span<const float> logits);  // the largest is taken out first

}  // namespace mlx::infer
