// Lines as they come, JSON at the end.
#include "cmd/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/path.h"
#include "cmd/cli/foreign_text.h"
#include "registry/repository.h"
#include "registry/versions/references.h"
#include "work/inputs.h"

namespace mlx::cmd {

PredictSource find_source(const std::string& word, Context& context) {
  const std::string path = join_path(context.folder(), word);
  if (path_exists(path) && !is_folder(path)) return {path, {}};
  if (!context.has_repository() || !registry::try_resolve(context.repository(), word))
    fail(ErrorKind::kNotFound, "'{}': there is no such file, and no dataset of this name", word);
  return {"", work::resolve_dataset(context.repository(), word, context.progress())};
}

std::vector<Ranked> rank_classes(std::span<const double> probabilities, std::int64_t top) {
  std::vector<Ranked> ranked;
  ranked.reserve(probabilities.size());
  for (const double probability : probabilities)
    ranked.push_back({static_cast<std::int64_t>(ranked.size()), probability});
  std::ranges::stable_sort(ranked, std::greater<>{}, &Ranked::probability);
  ranked.resize(std::min(static_cast<std::size_t>(top), ranked.size()));
  return ranked;
}

void Predictions::add(const std::string& name, const std::vector<Ranked>& classes) {
  std::string text;
  Json top = Json::array();
  PredictionFile::Cells cells;
  for (const Ranked& one : classes) {
    const std::string nth = cells.empty() ? "" : fmt::format("_{}", cells.size() / 2 + 1);
    cells.emplace_back("label" + nth, label(one.index));
    cells.emplace_back("probability" + nth, fmt::format("{}", one.probability));
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : "  ", context_.bold(label(one.index)), one.probability);
    top.push_back({{"label", label(one.index)}, {"class", one.index}, {"probability", one.probability}});
  }
  Json members = top.at(0);
  members["top"] = std::move(top);
  add(name, text, members, cells);
}

void Predictions::add(const std::string& name, const std::string& text, const Json& members,
                      const PredictionFile::Cells& cells) {
  if (!file_.wanted()) context_.line(fmt::format("{}  {}", printable(name), text));
  if (!file_.wanted() && !context_.wants_json()) return;
  Json prediction = {{unit_, name}};
  prediction.update(members);
  PredictionFile::Cells row{{unit_, name}};
  row.insert(row.end(), cells.begin(), cells.end());
  file_.add(row, prediction);
  if (context_.wants_json()) predictions_.push_back(std::move(prediction));
}

void Predictions::add_failed(const std::string& name, const std::string& message) {
  failed_.push_back({{unit_, name}, {"error", message}});
}

void Predictions::look_at(std::span<const double> answer) {
  ++answers_;
  nan_ += std::ranges::any_of(answer, [](double value) { return std::isnan(value); });
}

void Predictions::finish() {
  if (nan_ > 0) {
    context_.progress().warn(
        fmt::format("{} of {} answers are NaN: the weights hold NaN, or the numbers grew too large", nan_, answers_));
  }
  file_.finish();
  if (!context_.wants_json()) return;
  Json document = {{"schema", "mlx.predict/1"},
                   {"model", inputs_.version.name()},
                   {"digest", inputs_.version.digest.text()},
                   {"predictions", std::move(predictions_)}};
  if (!failed_.empty()) document["failed"] = std::move(failed_);
  if (!out_.empty()) document["out"] = out_;
  context_.json(document);
}

const std::string& Predictions::label(std::int64_t index) const {
  return inputs_.model.signature().labels[static_cast<std::size_t>(index)];
}

}  // namespace mlx::cmd
