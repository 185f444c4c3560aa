// Logits to probabilities and numbers.

#include "infer/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "data/images/normalize.h"

namespace mlx::infer {

std::vector<double> softmax(std::span<const float> logits) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  std::vector<double> out(logits.begin(), logits.end());
  double sum = 0;
  for (double& value : out) sum += value = std::exp(value - largest);
  for (double& value : out) value /= sum;
  return out;
}

void append_answers(const Model& model, const Logits& logits, Answers& to) {
  const std::size_t width = static_cast<std::size_t>(logits.width), from = to.values.size();
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    const std::span<const float> outputs(logits.values + row * logits.width, width);
    switch (model.signature().gives) {
      case data::TargetKind::kClass: {
        const std::vector<double> probabilities = softmax(outputs);
        to.values.insert(to.values.end(), probabilities.begin(), probabilities.end());
        break;
      }
      case data::TargetKind::kLabels:
        for (const float value : outputs) to.values.push_back(1 / (1 + std::exp(-static_cast<double>(value))));
        break;
      case data::TargetKind::kNumbers:
        for (std::size_t i = 0; i < width; ++i) {
          const data::Column& target = model.about().preprocessing.rows->targets[i];
          to.values.push_back(static_cast<double>(outputs[i]) * target.std + target.mean);
        }
        break;
      case data::TargetKind::kTokens:
        CHECK(false);
    }
  }
  for (std::size_t i = from; i < to.values.size(); ++i)  // the sign of a NaN is an accident
    if (std::isnan(to.values[i])) to.values[i] = std::numeric_limits<double>::quiet_NaN();
  to.count += logits.rows;
}

Answers answer_images(Session& session, ByteView pixels, Progress& progress) {
  const Model& model = session.model();
  if (model.signature().takes != Takes::kImages) fail(ErrorKind::kUsage, "the model takes no images");
  const std::int64_t example = model.signature().example;
  const std::int64_t count = static_cast<std::int64_t>(pixels.size()) / example;
  Answers out;
  out.values.reserve(static_cast<std::size_t>(count * model.signature().width()));
  for (std::int64_t first = 0; first < count; first += session.max_batch()) {
    progress.check_interrupted();
    const std::int64_t taken = std::min(session.max_batch(), count - first);
    const auto elements = static_cast<std::size_t>(taken * example);
    data::normalize(model.about().preprocessing.normalization,
                    pixels.subspan(static_cast<std::size_t>(first * example), elements), {session.input(), elements});
    append_answers(model, session.run(taken), out);
  }
  return out;
}

Answers answer_rows(Session& session, const data::Rows& rows, Progress& progress) {
  const Model& model = session.model();
  if (model.signature().takes != Takes::kRows) fail(ErrorKind::kUsage, "the model takes no rows");
  const data::RowSchema& schema = *model.about().preprocessing.rows;
  Answers out;
  out.values.reserve(static_cast<std::size_t>(rows.count * model.signature().width()));
  progress.begin("predicting", static_cast<std::uint64_t>(rows.count), "rows");
  for (std::int64_t first = 0; first < rows.count; first += session.max_batch()) {
    progress.check_interrupted();
    const std::int64_t taken = std::min(session.max_batch(), rows.count - first);
    for (std::int64_t i = 0; i < taken; ++i)
      data::write_features(rows[first + i], schema, session.input() + i * model.signature().example);
    append_answers(model, session.run(taken), out);
    progress.advance(static_cast<std::uint64_t>(taken));
  }
  progress.end();
  return out;
}

}  // namespace mlx::infer
