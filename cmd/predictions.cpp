// Lines as they come, JSON at the end.
#include "cmd/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace mlx::cmd {

std::vector<Ranked> rank_classes(const float* logits, std::int64_t classes, std::int64_t top) {
  const double largest = *std::max_element(logits, logits + classes);
  double sum = 0;
  std::vector<Ranked> ranked(static_cast<std::size_t>(classes));
  for (std::int64_t c = 0; c < classes; ++c) {
    ranked[static_cast<std::size_t>(c)] = {c, std::exp(logits[c] - largest)};
    sum += ranked[static_cast<std::size_t>(c)].probability;
  }
  for (Ranked& one : ranked) one.probability /= sum;
  std::ranges::stable_sort(ranked, std::greater<>{}, &Ranked::probability);
  ranked.resize(static_cast<std::size_t>(std::min(top, classes)));
  return ranked;
}

void Predictions::add(const std::string& name, const std::vector<Ranked>& classes) {
  std::string text;
  Json top = Json::array();
  for (const Ranked& one : classes) {
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : "  ", context_.bold(label(one.index)), one.probability);
    top.push_back({{"label", label(one.index)}, {"class", one.index}, {"probability", one.probability}});
  }
  Json members = top.at(0);
  members["top"] = std::move(top);
  add(name, text, members);
}

void Predictions::add(const std::string& name, const std::string& text, const Json& members) {
  context_.line(fmt::format("{}  {}", name, text));
  if (!context_.wants_json()) return;
  Json prediction = {{unit_, name}};
  prediction.update(members);
  predictions_.push_back(std::move(prediction));
}

void Predictions::finish() {
  if (!context_.wants_json()) return;
  context_.json({{"schema", "mlx.predict/1"},
                 {"model", inputs_.version.name()},
                 {"digest", inputs_.version.digest.text()},
                 {"predictions", std::move(predictions_)}});
}

std::string Predictions::label(std::int64_t index) const {
  const std::vector<std::string>& labels = inputs_.model.labels;
  return labels.empty() ? fmt::format("{}", index) : labels[static_cast<std::size_t>(index)];
}

}  // namespace mlx::cmd
