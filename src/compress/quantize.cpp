// Quantization of a model, and through the repository: work that makes a child version.

#include "compress/quantize.h"

#include "base/error.h"
#include "base/json.h"
#include "compress/quantized_graph.h"
#include "compress_sources.h"
#include "graph/passes.h"
#include "work/inputs.h"
#include "work/work.h"

namespace mlx::compress {
namespace {

// Calibration feeds images; models of other data are refused before a run begins.
void check_takes_images(registry::Repository& repository, const registry::Version& model) {
  const Json json = nn::load_model_json(repository.store(), model.digest);
  const Json preprocessing = json.value("preprocessing", Json());
  if (preprocessing.is_object() && preprocessing.contains("height")) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{} takes no images: only models of images can be quantized", model.name()),
              "it is evaluated and used in the precision that it was trained in");
}

work::Work describe(const QuantizeOptions& options, const registry::Version& model, const registry::Version& data) {
  work::Work work;
  work.command = "quantize";
  work.title = options.title;
  work.inputs = {{"model", model.digest}, {"data", data.digest}};
  work.params = canonical({{"examples", options.calibration.examples},
                           {"seed", options.calibration.seed},
                           {"split", options.split},
                           {"to", "int8"}});
  work.numerics = {Digest::parse(MLX_COMPRESS_SOURCES), options.level};
  work.makes = {model.artifact};
  work.force = options.force;
  return work;
}

}  // namespace

nn::Model quantize_int8(const nn::Model& model, const graph::Tensors& ranges) {
  if (model.precision != "f32") fail(ErrorKind::kUsage, "the model is {} already, expected f32", model.precision);
  graph::Tensors tensors = model.weights->tensors();
  const graph::Graph fused = graph::fuse(graph::to_inference(model.graph), tensors);
  Quantized quantized = quantize_graph(fused, tensors, ranges);
  nn::Model out = model;
  out.graph = std::move(quantized.graph);
  out.weights = std::make_shared<const graph::Weights>(std::move(quantized.tensors));
  out.precision = "int8";
  out.numerics = "native";  // its calibration and int8 kernels are
  return out;
}

QuantizeOutcome quantize_version(registry::Repository& repository, const QuantizeOptions& options, Progress& progress) {
  const registry::Version from = work::resolve_model(repository, options.model);
  const registry::Version data = work::resolve_dataset(repository, options.dataset, progress);
  check_takes_images(repository, from);
  const auto body = [&](work::ActiveRun& run) {
    const nn::Model model = nn::load_model(repository.store(), from.digest);
    const data::Examples examples = data::load_split(repository.store(), data.digest, options.split, progress);
    const graph::Tensors ranges =
        calibrate(model, examples, options.calibration, options.level, repository.pool(), progress);
    const nn::Model quantized = quantize_int8(model, ranges);
    const store::ManifestSummary made =
        work::store_output(run, {from.artifact, "int8 of " + from.name(), from.digest},
                           [&](store::Store& store) { return nn::store_model(store, quantized); });
    return Json{{"bytes", made.bytes}, {"bytes_before", from.bytes}};
  };
  const work::Outcome done = work::run_once(repository, describe(options, from, data), body, progress);
  if (options.point) work::point_at(repository, done.versions[0]);
  return {done.unchanged, from, done.versions[0]};
}

}  // namespace mlx::compress
