// What `mlx diff` found as JSON (mlx.diff/1).
#include "base/json.h"
#include "cmd/describe.h"
#include "cmd/diff.h"

namespace mlx::cmd {
namespace {

using diff::FileDiff;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json cells_json(const diff::NamedCells& cells) {
  Json json = Json::object();
  for (const auto& [column, text] : cells) json[column] = text;
  return json;
}

Json columns_json(const diff::RowDiff& rows) {
  using Kind = diff::ColumnChange::Kind;
  Json list = Json::array();
  for (const diff::ColumnChange& change : rows.columns) {
    const char* status = change.kind == Kind::kAdded ? "added" : change.kind == Kind::kRemoved ? "removed" : "retyped";
    Json one = {{"column", change.name}, {"status", status}};
    if (change.kind != Kind::kAdded) one["before"] = name_of(change.before);
    if (change.kind != Kind::kRemoved) one["after"] = name_of(change.after);
    list.push_back(std::move(one));
  }
  return list;
}

Json shown_json(const std::vector<diff::ShownRow>& rows) {
  Json list = Json::array();
  for (const diff::ShownRow& row : rows) list.push_back({{"line", row.line}, {"cells", cells_json(row.cells)}});
  return list;
}

Json rows_json(const diff::RowDiff& rows) {
  Json changed = Json::array(), doubled = Json::array(), counts = Json();
  for (const diff::ChangedRow& row : rows.changed_rows) {
    Json cells = Json::array();
    for (const diff::CellChange& cell : row.cells)
      cells.push_back({{"column", cell.column}, {"before", or_null(cell.before)}, {"after", or_null(cell.after)}});
    changed.push_back({{"key", cells_json(row.key)},
                       {"line_before", row.line_before},
                       {"line_after", row.line_after},
                       {"cells", cells}});
  }
  for (const diff::DoubledKey& row : rows.doubled)
    doubled.push_back({{"side", row.after ? "after" : "before"}, {"line", row.line}, {"key", cells_json(row.key)}});
  if (rows.changed_cells) {
    counts = Json::object();
    for (const auto& [column, count] : *rows.changed_cells) counts[column] = count;
  }
  return {{"before", rows.rows_before},
          {"after", rows.rows_after},
          {"by_key", rows.by_key},
          {"missing_key", rows.missing_key},
          {"columns", columns_json(rows)},
          {"columns_moved", rows.columns_moved},
          {"added", rows.added},
          {"removed", rows.removed},
          {"changed", rows.changed},
          {"changed_cells", counts},
          {"doubled_before", rows.doubled_before},
          {"doubled_after", rows.doubled_after},
          {"shown",
           {{"added", shown_json(rows.added_rows)},
            {"removed", shown_json(rows.removed_rows)},
            {"changed", changed},
            {"doubled", doubled}}}};
}

Json tensors_json(const diff::TensorsDiff& diff) {
  using Kind = diff::TensorChange::Kind;
  Json list = Json::array();
  for (const diff::TensorChange& tensor : diff.tensors) {
    constexpr const char* kWords[] = {"added", "removed", "reshaped", "changed"};
    Json one = {{"tensor", tensor.name}, {"status", kWords[static_cast<int>(tensor.kind)]}};
    if (tensor.kind != Kind::kAdded) one["before"] = {{"dtype", tensor.dtype_before}, {"shape", tensor.shape_before}};
    if (tensor.kind != Kind::kRemoved) one["after"] = {{"dtype", tensor.dtype_after}, {"shape", tensor.shape_after}};
    if (tensor.compared) {
      one["elements"] = tensor.elements;
      one["changed"] = tensor.changed;
      one["not_finite"] = tensor.not_finite;
      one["norm_before"] = tensor.norm_before;
      one["norm_difference"] = tensor.norm_difference;
      one["relative"] = tensor.norm_before > 0 ? Json(tensor.norm_difference / tensor.norm_before) : Json();
      one["largest"] = tensor.largest;
    }
    list.push_back(std::move(one));
  }
  return {{"same", diff.same},
          {"elements_before", diff.elements_before},
          {"elements_after", diff.elements_after},
          {"differ", list}};
}

Json idx_json(const diff::IdxSummary& idx) {
  Json labels = Json::object();
  for (const auto& [label, count] : idx.labels) labels[std::to_string(label)] = count;
  return {{"type", idx.type}, {"dims", idx.dims}, {"labels", labels}};
}

Json text_json(const diff::TextDiff& text) {
  Json removed = Json::array(), added = Json::array();
  for (const diff::Step& step : text.steps) {
    if (step.kind == diff::Step::Kind::kRemoved)
      removed.push_back({{"line", step.before + 1}, {"text", text.before[step.before]}});
    if (step.kind == diff::Step::Kind::kAdded)
      added.push_back({{"line", step.after + 1}, {"text", text.after[step.after]}});
  }
  return {{"removed", removed}, {"added", added}};
}

Json file_json(const FileDiff& file) {
  constexpr const char* kWords[] = {"new", "deleted", "modified", "moved"};
  Json json = {{"path", file.entry().path}, {"status", kWords[static_cast<int>(file.kind)]}};
  json["before"] = file.before ? entry_json(*file.before) : Json();
  json["after"] = file.after ? entry_json(*file.after) : Json();
  if (file.rows) json["rows"] = rows_json(*file.rows);
  if (file.tensors) json["tensors"] = tensors_json(*file.tensors);
  if (file.idx) json["idx"] = {{"before", idx_json(file.idx->first)}, {"after", idx_json(file.idx->second)}};
  if (file.text) json["lines"] = text_json(*file.text);
  if (!file.note.empty()) json["note"] = file.note;
  return json;
}

Json model_json(const diff::ModelDiff& model) {
  Json layers = Json::array(), metrics = Json::array();
  for (const diff::LayerChange& layer : model.layers) {
    constexpr const char* kWords[] = {"added", "removed", "changed"};
    layers.push_back({{"layer", layer.name},
                      {"operation", layer.op},
                      {"status", kWords[static_cast<int>(layer.kind)]},
                      {"before", layer.before},
                      {"after", layer.after}});
  }
  for (const diff::MetricChange& metric : model.metrics) {
    metrics.push_back({{"on", metric.where.empty() ? Json() : Json(metric.where)},
                       {"metric", metric.name},
                       {"before", or_null(metric.before)},
                       {"after", or_null(metric.after)}});
  }
  return {{"parameters", values_json(model.parameters)},
          {"training", values_json(model.training)},
          {"graph", layers},
          {"metrics", metrics}};
}

Json side_json(const DiffSide& side, std::uint64_t bytes) {
  Json json = {{"name", side.name}, {"files", side.side.entries.size()}, {"bytes", bytes}};
  json["digest"] = side.version ? Json(side.version->digest.text()) : Json();
  return json;
}

}  // namespace

Json values_json(const std::vector<diff::ValueChange>& changes) {
  Json list = Json::array();
  for (const diff::ValueChange& change : changes)
    list.push_back({{"path", change.path}, {"before", or_null(change.before)}, {"after", or_null(change.after)}});
  return list;
}

Json diff_json(const DiffOutcome& outcome) {
  const diff::Comparison& comparison = outcome.comparison;
  Json files = Json::array(), images = Json::array();
  for (const FileDiff& file : comparison.files) files.push_back(file_json(file));
  for (const diff::FolderCount& folder : comparison.images) {
    images.push_back({{"folder", folder.folder},
                      {"before", folder.before},
                      {"after", folder.after},
                      {"added", folder.added},
                      {"removed", folder.removed},
                      {"changed", folder.changed}});
  }
  Json json = {{"before", side_json(outcome.pair.before, comparison.bytes_before)},
               {"after", side_json(outcome.pair.after, comparison.bytes_after)},
               {"different", outcome.different()},
               {"same", comparison.same},
               {"files", files},
               {"images", images},
               {"not_compared", comparison.not_compared}};
  if (outcome.model) json["model"] = model_json(*outcome.model);
  if (!outcome.model_note.empty()) json["note"] = outcome.model_note;
  return json;
}

}  // namespace mlx::cmd
