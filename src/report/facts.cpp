// Reads versions, attachments, runs and metrics; skips what is missing or was written by something newer.
#include "report/facts.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "nn/model.h"
#include "registry/versions/lineage.h"
#include "registry/versions/references.h"
#include "report/report.h"

namespace mlx::report {
namespace {

// `value()`, or nothing if it reads something that was made elsewhere and never fetched.
template <typename Function>
auto if_here(Function value) -> std::optional<decltype(value())> {
  try {
    return value();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return std::nullopt;
  }
}

std::string dataset_name(registry::Repository& repository, const Digest& digest) {
  for (const registry::Version& version : registry::versions(repository))
    if (version.digest == digest && version.kind == registry::ArtifactKind::kDataset) return version.name();
  return digest.brief();
}

std::int64_t integer_or(const Json& object, const char* key, std::int64_t otherwise) {
  return object.is_object() && object.contains(key) && object[key].is_number_integer() ? object[key].get<std::int64_t>()
                                                                                       : otherwise;
}

std::vector<Evaluated> evaluations(registry::Repository& repository, const Digest& version) {
  std::vector<registry::Attachment> attached = registry::attachments(repository, version, "evaluation");
  std::ranges::stable_sort(attached, [](const auto& a, const auto& b) { return a.time > b.time; });
  std::set<std::string> seen;
  std::vector<Evaluated> found;
  for (const registry::Attachment& a : attached) {
    if (!seen.insert(a.name).second) continue;
    const std::optional<Bytes> blob = if_here([&] { return repository.store().read_blob(a.blob); });
    if (!blob) continue;
    Evaluated evaluated;
    evaluated.evaluation = train::evaluation_from_json(parse_json(as_text(*blob), "evaluation " + a.name));
    evaluated.dataset = dataset_name(repository, evaluated.evaluation.data);
    found.push_back(std::move(evaluated));
  }
  return found;
}

std::optional<QuantizationLoss> quantization_loss(registry::Repository& repository, const Digest& version) {
  constexpr const char* kWhat = "quantization";
  std::vector<registry::Attachment> attached = registry::attachments(repository, version, kWhat);
  std::ranges::stable_sort(attached, [](const auto& a, const auto& b) { return a.time > b.time; });
  for (const registry::Attachment& a : attached) {
    const std::optional<Bytes> blob = if_here([&] { return repository.store().read_blob(a.blob); });
    if (!blob) continue;
    const Json record = parse_json(as_text(*blob), kWhat);
    const Json& text = json_object(record, "measured_on", kWhat);
    QuantizationLoss loss;
    loss.dataset = dataset_name(repository, Digest::parse(json_string(text, "data", kWhat)));
    loss.split = json_string(text, "split", kWhat);
    loss.tokens = json_int(text, "tokens", kWhat);
    loss.perplexity_before = json_number(record, "perplexity_before", kWhat);
    loss.perplexity = json_number(record, "perplexity", kWhat);
    loss.kl_divergence = json_number(record, "kl_divergence", kWhat);
    loss.top1_agreement = json_number(record, "top1_agreement", kWhat);
    return loss;
  }
  return std::nullopt;
}

ModelFacts model_facts(registry::Repository& repository, const registry::Version& version) {
  ModelFacts facts;
  facts.version = version;
  const Json model = nn::load_model_json(repository.store(), version.digest);
  facts.family = json_string(model, "family", "model.json");
  facts.precision = json_string(model, "precision", "model.json");
  const Json preprocessing = model.value("preprocessing", Json());
  facts.height = integer_or(preprocessing, "height", 0);
  facts.width = integer_or(preprocessing, "width", 0);
  facts.channels = integer_or(preprocessing, "channels", 0);
  const bool other_targets = preprocessing.is_object() && preprocessing.contains("target") &&
                             json_string(preprocessing, "target", "model.json: preprocessing") != "class";
  if (model.contains("labels") && !other_targets) facts.classes = json_array(model, "labels", "model.json").size();
  facts.evaluations = evaluations(repository, version.digest);
  facts.loss = quantization_loss(repository, version.digest);
  return facts;
}

// The children of `version`, newest first, or its parent.
std::vector<registry::Version> relatives(registry::Repository& repository, const registry::Version& version,
                                         bool parents) {
  std::vector<registry::Version> found;
  for (const registry::Version& other : registry::versions(repository)) {
    const bool related = parents ? version.parent == other.digest : other.parent == version.digest;
    if (related && other.kind == version.kind) found.push_back(other);
  }
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.time > b.time; });
  return found;
}

// The f32 model and the quantized one, if `facts.model` is either of them.
void find_pair(registry::Repository& repository, Facts& facts) {
  const bool quantized = facts.model.precision != "f32";
  for (const registry::Version& other : relatives(repository, facts.model.version, quantized)) {
    const std::optional<ModelFacts> there = if_here([&] { return model_facts(repository, other); });
    if (!there || (there->precision != "f32") == quantized) continue;
    facts.before = quantized ? *there : facts.model;
    facts.after = quantized ? facts.model : *there;
    return;
  }
}

std::optional<registry::Run> run_of(registry::Repository& repository, const registry::Version& version) {
  if (version.run.empty()) return std::nullopt;
  return if_here([&] { return registry::read_run(repository, version.run); });
}

void read_training(registry::Repository& repository, Facts& facts) {
  if (facts.before) facts.training = run_of(repository, facts.before->version);
  if (!facts.training) facts.training = run_of(repository, facts.model.version);
  if (!facts.training || facts.training->command != "train") {
    facts.training.reset();
    return;
  }
  double last = 0;
  for (const registry::MetricPoint& point : registry::metrics(repository, facts.training->id)) {
    facts.metrics[point.name].emplace_back(static_cast<double>(point.step), point.value);
    last = std::max(last, static_cast<double>(point.step));
  }
  const Json params = parse_json(facts.training->params.empty() ? "{}" : facts.training->params, "parameters of a run");
  const std::int64_t epochs = params.contains("train") ? integer_or(params["train"], "epochs", 0) : 0;
  if (epochs > 0 && facts.training->status == registry::RunStatus::kDone)
    facts.steps_per_epoch = last / static_cast<double>(epochs);
}

// Ancestors only: evaluations and later models have sections of their own.
void read_lineage(registry::Repository& repository, Facts& facts) {
  facts.lineage = registry::lineage(repository, facts.after ? facts.after->version : facts.model.version);
  for (const registry::LineageNode& node : facts.lineage.nodes)
    if (node.kind == registry::NodeKind::kRun)
      if (auto run = if_here([&] { return registry::read_run(repository, node.run); })) facts.runs.push_back(*run);
  std::ranges::sort(
      facts.runs, [](const auto& a, const auto& b) { return std::pair(a.started, a.id) < std::pair(b.started, b.id); });
}

}  // namespace

const Evaluated* ModelFacts::main_evaluation() const {
  const auto test = std::ranges::find_if(evaluations, [](const Evaluated& e) { return e.evaluation.split == "test"; });
  if (test != evaluations.end()) return &*test;
  return evaluations.empty() ? nullptr : &evaluations.front();
}

registry::Version report_subject(registry::Repository& repository, const std::string& reference) {
  if (!reference.empty()) {
    const registry::Version version = registry::resolve(repository, reference);
    if (version.kind == registry::ArtifactKind::kModel) return version;
    throw Error(ErrorKind::kUsage, fmt::format("{} is a dataset", version.name()),
                "name a model; `mlx log` lists them");
  }
  std::optional<registry::Version> newest;
  for (const registry::Version& version : registry::versions(repository))
    if (version.kind == registry::ArtifactKind::kModel && (!newest || version.time >= newest->time)) newest = version;
  if (!newest)
    throw Error(ErrorKind::kNotFound, "there is no model in this repository",
                "make one with `mlx train -c train.toml`");
  return *newest;
}

Facts gather(registry::Repository& repository, const std::string& reference) {
  Facts facts;
  facts.model = model_facts(repository, report_subject(repository, reference));
  find_pair(repository, facts);
  read_training(repository, facts);
  read_lineage(repository, facts);
  return facts;
}

}  // namespace mlx::report
