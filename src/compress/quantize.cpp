// Quantizes a model. Through the repository it is work that makes a child version.

#include "compress/quantize.h"

#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "compress/quantize_text.h"
#include "compress/quantize_work.h"
#include "compress/quantized_graph.h"
#include "compress_sources.h"
#include "graph/passes/passes.h"
#include "graph/session/not_finite.h"
#include "infer/examples.h"
#include "work/inputs.h"
#include "work/work.h"

namespace mlx::compress {
namespace {

// Called before a run begins.
void check_is_f32(const std::string& precision) {
  if (precision != "f32") fail(ErrorKind::kUsage, "the model is already {}, expected f32", precision);
}

// Stores the child and moves the pointer, or finds the known answer.
QuantizeOutcome run(registry::Repository& repository, const QuantizeOptions& options, const registry::Version& from,
                    const work::Work& work, const std::function<nn::Model(Json& summary)>& quantized,
                    Progress& progress) {
  const auto body = [&](work::ActiveRun& run) {
    Json summary = Json::object();
    const nn::Model model = quantized(summary);
    const store::ManifestSummary made =
        work::store_output(run, {from.artifact, model.precision + " of " + from.name(), from.digest},
                           [&](store::Store& store) { return nn::store_model(store, model); });
    summary["bytes"] = made.bytes, summary["bytes_before"] = from.bytes, summary["precision"] = model.precision;
    return summary;
  };
  const work::Outcome done = work::run_once(repository, work, body, progress);
  if (options.point) work::point_at(repository, done.versions[0]);
  return {done.unchanged, from, done.versions[0], done.run.summary};
}

QuantizeOutcome calibrated(registry::Repository& repository, const QuantizeOptions& options,
                           const registry::Version& from, const Json& about, Progress& progress) {
  const registry::Version data = work::resolve_dataset(repository, options.dataset, progress);
  data::Reading divided;
  if (about.contains("data")) divided.division = infer::division_of(about["data"]);
  const data::Kind& kind = data::kind_of(repository.store(), data.digest, options.split, divided);
  work::Work work = quantize_work(options, from);
  work.inputs.emplace_back("data", data.digest);
  const std::int64_t examples =
      options.calibration.examples > 0 ? options.calibration.examples : calibration_examples(kind);
  work.params =
      canonical({{"examples", examples}, {"seed", options.calibration.seed}, {"split", options.split}, {"to", "int8"}});
  const auto quantized = [&](Json&) {
    const infer::Model model(nn::load_model(repository.store(), from.digest), options.backend, repository.pool());
    check_no_encoder(model.about(), from);
    infer::check_kind(model.about(), kind);
    check_finite(model.about());
    data::Reading reading = infer::reading_of(model.about());
    reading.budget = options.budget;
    const data::DatasetPtr dataset = data::load(repository.store(), data.digest, options.split, reading, progress);
    return quantize_int8(model, calibrate(model, *dataset, options.calibration, progress));
  };
  return run(repository, options, from, work, quantized, progress);
}

QuantizeOutcome without_data(registry::Repository& repository, const QuantizeOptions& options,
                             const registry::Version& from, const WeightType& type, Progress& progress) {
  work::Work work = quantize_work(options, from);
  Json params = {{"method", "rtn"}, {"to", name_of(type)}};
  if (!type.blocks) params["group"] = type.groups.size;
  work.params = canonical(params);
  const auto quantized = [&](Json& summary) {
    const nn::Model model = nn::load_model_as_stored(repository.store(), from.digest);
    if (type.blocks || !graph::is_encoder(graph::to_inference(model.graph))) check_language_model(model, from);
    const GroupableLayers layers = groupable_layers(model.graph, type);
    add_layer_counts(static_cast<std::int64_t>(layers.nodes.size()), layers.left, layers.small, summary);
    return group_weights(model, type, repository.pool());
  };
  return run(repository, options, from, work, quantized, progress);
}

}  // namespace

work::Work quantize_work(const QuantizeOptions& options, const registry::Version& model) {
  work::Work work;
  work.command = "quantize";
  work.title = options.title;
  work.inputs = {{"model", model.digest}};
  work.numerics = {Digest::parse(MLX_COMPRESS_SOURCES), options.backend};
  work.makes = {model.artifact};
  work.force = options.force;
  return work;
}

void check_finite(const nn::Model& model) {
  for (const auto& [name, weight] : model.weights->all())
    if (!graph::all_finite(weight->data(), weight->shape().dtype))
      fail(ErrorKind::kCorrupt, "'{}' has weights that are not finite", name);
}

void check_no_encoder(const nn::Model& model, const registry::Version& version) {
  if (!graph::is_encoder(graph::to_inference(model.graph))) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{} is an encoder: its weights become int8 or int4 in groups, without data", version.name()),
              "--to int8 or --to int4, without --calibrate and --method");
}

void check_language_model(const nn::Model& model, const registry::Version& version) {
  check_no_encoder(model, version);
  if (graph::is_language_model(graph::to_inference(model.graph))) return;
  throw Error(ErrorKind::kUsage, fmt::format("{} is no language model: its activations need ranges", version.name()),
              "--to int8 --calibrate DATASET finds them");
}

void add_layer_counts(std::int64_t layers, std::int64_t left, std::int64_t small, Json& summary) {
  summary["layers"] = layers, summary["layers_left"] = left, summary["layers_in_small_blocks"] = small;
}

nn::Model quantize_int8(const infer::Model& model, const graph::Tensors& ranges) {
  check_is_f32(model.about().precision);
  nn::Model out = model.about();
  Quantized quantized = quantize_graph(out.graph, out.weights->tensors(), ranges);
  out.graph = std::move(quantized.graph);
  out.weights = std::make_shared<const graph::Weights>(std::move(quantized.tensors));
  out.precision = "int8";
  out.numerics = "native";  // calibration and int8 kernels are not portable
  return out;
}

QuantizePlan plan_version(registry::Repository& repository, const QuantizeOptions& options, Progress& progress) {
  if (!options.text && !options.type)
    throw Error(ErrorKind::kUsage, "a dry run is for weights in groups or blocks, not for int8 with ranges",
                "leave --calibrate out, or add --method");
  const registry::Version from = work::resolve_model(repository, options.model);
  check_is_f32(nn::load_model_json(repository.store(), from.digest).value("precision", "f32"));
  if (options.text) {
    (void)work::resolve_dataset(repository, options.dataset, progress);
    if (!options.text->data.empty()) (void)work::resolve_dataset(repository, options.text->data, progress);
  }
  const WeightType& type = options.text ? options.text->plan.widths[0] : *options.type;
  const nn::Model model = nn::load_model_as_stored(repository.store(), from.digest);
  if (options.text || type.blocks || !graph::is_encoder(graph::to_inference(model.graph)))
    check_language_model(model, from);
  return {from, plan_layers(model, type)};
}

QuantizeOutcome quantize_version(registry::Repository& repository, const QuantizeOptions& options, Progress& progress) {
  const registry::Version from = work::resolve_model(repository, options.model);
  const Json about = nn::load_model_json(repository.store(), from.digest);
  check_is_f32(about.value("precision", "f32"));
  if (options.text) return quantize_text(repository, options, from, about, progress);
  return options.type ? without_data(repository, options, from, *options.type, progress)
                      : calibrated(repository, options, from, about, progress);
}

}  // namespace mlx::compress
