// Evaluations as JSON: the output of `mlx eval --json`, a run's summary, and the attachment to a version.

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "train/evaluate/evaluate.h"

namespace mlx::train {
namespace {

constexpr const char* kWhat = "evaluation";

std::string label_of(const Evaluation& e, std::size_t i) {
  return i < e.labels.size() ? e.labels[i] : std::to_string(i);
}

Json classes_to_json(const Evaluation& e) {
  Json out = Json::array();
  const std::size_t count = e.confusion.empty() ? e.classes.size() : e.confusion.size();
  for (std::size_t i = 0; i < count; ++i) {
    const ClassMetrics metrics = class_metrics(e, i);
    out.push_back({{"label", label_of(e, i)},
                   {"precision", metrics.precision},
                   {"recall", metrics.recall},
                   {"f1", metrics.f1},
                   {"support", metrics.support}});
  }
  return out;
}

// A metric that is not defined is left out.
Json defined(double value) {
  return value == value ? Json(value) : Json();
}

Json numbers_to_json(const Evaluation& e) {
  Json out = Json::array();
  for (std::size_t i = 0; i < e.numbers.size(); ++i) {
    const NumberMetrics& n = e.numbers[i];
    out.push_back(
        {{"label", label_of(e, i)}, {"rmse", defined(n.rmse)}, {"mae", defined(n.mae)}, {"r2", defined(n.r2)}});
  }
  return out;
}

std::string speed_key(const Evaluation& evaluation) {
  return evaluation.unit + "_per_second";
}

std::string known_unit(const std::string& name) {
  if (!data::kind_counting(name)) fail(ErrorKind::kCorrupt, "{}: a kind of data '{}' is not known", kWhat, name);
  return name;
}

data::TargetKind target_named(const std::string& name) {
  for (const data::TargetKind kind :
       {data::TargetKind::kClass, data::TargetKind::kLabels, data::TargetKind::kNumbers, data::TargetKind::kTokens})
    if (name == data::name_of(kind)) return kind;
  fail(ErrorKind::kCorrupt, "{}: a target '{}' is not known", kWhat, name);
}

void read_confusion(const Json& json, Evaluation& out) {
  const Json& rows = json_array(json, "confusion", kWhat);
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != rows.size() || rows.size() != out.labels.size())
      fail(ErrorKind::kCorrupt, "evaluation: the confusion matrix is not square");
    std::vector<std::int64_t> values;
    for (const Json& n : row) {
      if (!n.is_number_integer()) fail(ErrorKind::kCorrupt, "evaluation: the confusion matrix must hold counts");
      values.push_back(n.get<std::int64_t>());
    }
    out.confusion.push_back(std::move(values));
  }
}

double number_or_nan(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_null() ? std::nan("") : json_number(json, key, kWhat);
}

// Fields that are missing in evaluations from before there were other kinds of data and targets.
void read_kinds(const Json& json, Evaluation& out) {
  if (json.contains("unit")) out.unit = known_unit(json_string(json, "unit", kWhat));
  if (json.contains("target")) out.targets = target_named(json_string(json, "target", kWhat));
  if (!json.contains("metrics")) return out.metric("accuracy", out.accuracy());
  for (const auto& [name, value] : json_object(json, "metrics", kWhat).items()) {
    if (!value.is_number()) fail(ErrorKind::kCorrupt, "{}: metric '{}': expected a number", kWhat, name);
    out.metrics.emplace_back(name, value.get<double>());
  }
}

}  // namespace

Json to_json(const Evaluation& e) {
  Json metrics = Json::object();
  for (const auto& [name, value] : e.metrics) metrics[name] = value;
  Json out = {{"data", e.data.text()},
              {"split", e.split},
              {"count", e.count},
              {"correct", e.correct},
              {"accuracy", e.accuracy()},
              {"loss", std::isfinite(e.loss) ? Json(e.loss) : Json()},
              {speed_key(e), e.per_second},
              {"classes", classes_to_json(e)},
              {"confusion", e.confusion},
              {"unit", e.unit},
              {"target", data::name_of(e.targets)},
              {"metrics", metrics}};
  if (!e.has_accuracy()) out.erase("correct"), out.erase("accuracy");
  if (!e.numbers.empty()) out["numbers"] = numbers_to_json(e);
  if (!e.skipped.empty()) out["skipped"] = e.skipped;
  return out;
}

Evaluation evaluation_from_json(const Json& json) {
  Evaluation out;
  out.data = Digest::parse(json_string(json, "data", kWhat));
  out.split = json_string(json, "split", kWhat);
  out.count = json_int(json, "count", kWhat);
  if (json.contains("correct")) out.correct = json_int(json, "correct", kWhat);
  out.loss = number_or_nan(json, "loss");
  read_kinds(json, out);
  out.per_second = json_number(json, speed_key(out), kWhat);
  for (const Json& c : json_array(json, "classes", kWhat)) {
    out.labels.push_back(json_string(c, "label", kWhat));
    out.classes.push_back({json_number(c, "precision", kWhat), json_number(c, "recall", kWhat),
                           json_number(c, "f1", kWhat), json_int(c, "support", kWhat)});
  }
  if (json.contains("numbers")) {
    for (const Json& n : json_array(json, "numbers", kWhat)) {
      out.labels.push_back(json_string(n, "label", kWhat));
      out.numbers.push_back({number_or_nan(n, "rmse"), number_or_nan(n, "mae"), number_or_nan(n, "r2")});
    }
  }
  if (json.contains("skipped")) {
    for (const Json& photo : json_array(json, "skipped", kWhat)) {
      if (!photo.is_string()) fail(ErrorKind::kCorrupt, "{}: 'skipped': expected texts", kWhat);
      out.skipped.push_back(photo.get<std::string>());
    }
  }
  read_confusion(json, out);
  return out;
}

}  // namespace mlx::train
