// Parameters and metrics of two versions; graphs are diff_graphs.cpp.
#include "diff/diff_models.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "nn/model.h"
#include "registry/versions/runs.h"
#include "train/evaluate/evaluate.h"

namespace mlx::diff {
namespace {

std::optional<registry::Run> run_of(registry::Repository& repository, const registry::Version& version) {
  if (version.run.empty()) return std::nullopt;
  try {
    return registry::read_run(repository, version.run);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return std::nullopt;  // it was made elsewhere, and never fetched
  }
}

Json document(const std::string& text) {
  return text.empty() ? Json::object() : parse_json(text, "run");
}

// Everything that defines the model besides its graph and weights.
Json parameters_of(const Json& model) {
  Json out = Json::object();
  for (const auto& [key, value] : model.items()) {
    const bool derived = key == "graph" || key == "signature" || key == "format" || key == "version";
    if (!derived && key != "config") out[key] = value;
    if (key == "config" && value.is_object()) out.update(value);
  }
  return out;
}

using Metrics = std::map<std::pair<std::string, std::string>, double>;  // (where, name)

void read_evaluations(registry::Repository& repository, const registry::Version& version, Metrics& metrics) {
  std::map<Digest, std::string> names;
  for (const registry::Version& other : registry::versions(repository)) names[other.digest] = other.name();
  std::vector<registry::Attachment> attached = registry::attachments(repository, version.digest, "evaluation");
  std::ranges::stable_sort(attached, {}, &registry::Attachment::time);  // the newest counts
  for (const registry::Attachment& attachment : attached) {
    if (!repository.store().has_blob(attachment.blob)) continue;
    const train::Evaluation evaluation = train::evaluation_from_json(
        parse_json(as_text(repository.store().read_blob(attachment.blob)), "evaluation " + attachment.name));
    const auto named = names.find(evaluation.data);
    const std::string where = (named == names.end() ? evaluation.data.brief() : named->second) + " " + evaluation.split;
    if (evaluation.has_accuracy()) metrics[{where, "accuracy"}] = evaluation.accuracy();
    for (const auto& [name, value] : evaluation.metrics) metrics[{where, name}] = value;
    metrics[{where, "loss"}] = evaluation.loss;
    metrics[{where, evaluation.unit + "/s"}] = evaluation.per_second;
  }
}

// What a version that was quantized on data, and the one that it was made of, have on the same held-out text.
void read_quantizations(registry::Repository& repository, const registry::Version& made, const registry::Version& other,
                        Metrics& of_made, Metrics& of_other) {
  constexpr const char* kWhat = "quantization";
  std::vector<registry::Attachment> attached = registry::attachments(repository, made.digest, kWhat);
  std::ranges::stable_sort(attached, {}, &registry::Attachment::time);
  for (const registry::Attachment& attachment : attached) {
    if (!repository.store().has_blob(attachment.blob)) continue;
    const Json record = parse_json(as_text(repository.store().read_blob(attachment.blob)), kWhat);
    const Json& text = json_object(record, "measured_on", kWhat);
    const std::string digest = json_string(text, "data", kWhat);
    std::string name = Digest::parse(digest).brief();
    for (const registry::Version& version : registry::versions(repository))
      if (version.digest.text() == digest) name = version.name();
    const std::string where =
        fmt::format("{} {}, {} tokens", name, json_string(text, "split", kWhat), json_int(text, "tokens", kWhat));
    const double before = json_number(record, "perplexity_before", kWhat);
    of_made[{where, "perplexity"}] = json_number(record, "perplexity", kWhat);
    of_made[{where, "kl_divergence"}] = json_number(record, "kl_divergence", kWhat);
    of_made[{where, "top1_agreement"}] = json_number(record, "top1_agreement", kWhat);
    if (json_string(record, "from", kWhat) == other.digest.text()) of_other[{where, "perplexity"}] = before;
  }
}

Metrics metrics_of(registry::Repository& repository, const registry::Version& version,
                   const std::optional<registry::Run>& run) {
  Metrics metrics;
  read_evaluations(repository, version, metrics);
  if (run) {
    const Json summary = document(run->summary);
    for (const auto& [key, value] : summary.items())
      if (value.is_number()) metrics[{"", key}] = value.get<double>();
  }
  return metrics;
}

std::optional<double> figure(const Metrics& metrics, const Metrics::key_type& key) {
  const auto found = metrics.find(key);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

ModelDiff diff_models(registry::Repository& repository, const registry::Version& before,
                      const registry::Version& after) {
  const Json old = nn::load_model_json(repository.store(), before.digest);
  const Json now = nn::load_model_json(repository.store(), after.digest);
  ModelDiff diff;
  diff.parameters = diff_values(parameters_of(old), parameters_of(now));
  diff.layers = diff_graphs(old.value("graph", Json()), now.value("graph", Json()));
  const std::optional<registry::Run> old_run = run_of(repository, before), new_run = run_of(repository, after);
  if (old_run && new_run && old_run->command == new_run->command) {
    diff.training = diff_values(document(old_run->params), document(new_run->params));
    // What model.json says already.
    std::erase_if(diff.training, [](const ValueChange& change) { return change.path.starts_with("model."); });
  }
  Metrics here = metrics_of(repository, before, old_run), there = metrics_of(repository, after, new_run);
  read_quantizations(repository, before, after, here, there);
  read_quantizations(repository, after, before, there, here);
  std::set<Metrics::key_type> keys;
  for (const auto& [key, value] : here) keys.insert(key);
  for (const auto& [key, value] : there) keys.insert(key);
  for (const auto& key : keys) diff.metrics.push_back({key.first, key.second, figure(here, key), figure(there, key)});
  return diff;
}

}  // namespace mlx::diff
