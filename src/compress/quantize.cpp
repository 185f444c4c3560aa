// Quantization of a model, and through the repository: a run with a key, and a child version.

#include "compress/quantize.h"

#include "base/error.h"
#include "base/json.h"
#include "compress/quantized_graph.h"
#include "compress_sources.h"
#include "infer/examples.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "train/inputs.h"
#include "train/numerics.h"
#include "train/run_scope.h"

namespace mlx::compress {
namespace {

constexpr train::Sources kSources{MLX_COMPRESS_SOURCES};

struct Inputs {
  registry::Version model, data;
  registry::RunStart start;
};

Inputs read_inputs(registry::Repository& repository, const QuantizeOptions& options, Progress& progress) {
  Inputs in;
  in.model = train::resolve_model(repository, options.model);
  in.data = train::resolve_dataset(repository, options.dataset, progress);
  in.start.command = "quantize";
  in.start.title = options.title;
  in.start.inputs = {{"model", in.model.digest}, {"data", in.data.digest}};
  const std::int64_t examples =
      options.calibration.examples > 0
          ? options.calibration.examples
          : calibration_examples(data::kind_of(repository.store(), in.data.digest, options.split));
  in.start.params =
      canonical({{"examples", examples}, {"seed", options.calibration.seed}, {"split", options.split}, {"to", "int8"}});
  in.start.key =
      train::run_key(in.start.command, in.start.inputs, in.start.params, train::numerics_id(kSources, options.level));
  return in;
}

// Refused before a run begins.
void check_is_f32(const std::string& precision) {
  if (precision != "f32") fail(ErrorKind::kUsage, "the model is {} already, expected f32", precision);
}

void point_at(registry::Repository& repository, const registry::Version& v) {
  registry::write_pointer(repository, {v.artifact, v.kind, v.digest, v.files, v.bytes});
}

std::optional<registry::Version> known_result(registry::Repository& repository, const Inputs& in) {
  const std::optional<registry::Run> done = registry::find_done_run(repository, in.start.key);
  if (!done || done->outputs.empty()) return std::nullopt;
  return registry::version_of(repository, in.model.artifact, done->outputs[0].version);
}

registry::Version quantize_run(registry::Repository& repository, const QuantizeOptions& options, const Inputs& in,
                               const std::string& run, Progress& progress) {
  const infer::Model model(nn::load_model(repository.store(), in.model.digest), options.level, repository.pool());
  infer::check_kind(model.about(), data::kind_of(repository.store(), in.data.digest, options.split));
  const data::Split split =
      data::load(repository.store(), in.data.digest, options.split, infer::reading_of(model.about()), progress);
  const graph::Tensors ranges = calibrate(model, split, options.calibration, progress);
  registry::NewVersion version;
  version.artifact = in.model.artifact;
  version.kind = registry::ArtifactKind::kModel;
  registry::store_under_domain_of(repository, in.model.artifact);
  version.manifest = nn::store_model(repository.store(), quantize_int8(model, ranges));
  version.message = "int8 of " + in.model.name();
  version.run = run;
  version.parent = in.model.digest;
  registry::Version made = registry::create_version(repository, version).version;
  registry::end_run(repository, run, "done", {{"model", made.digest}},
                    {{"bytes", made.bytes}, {"bytes_before", in.model.bytes}});
  return made;
}

}  // namespace

nn::Model quantize_int8(const infer::Model& model, const graph::Tensors& ranges) {
  check_is_f32(model.about().precision);
  nn::Model out = model.about();
  Quantized quantized = quantize_graph(out.graph, out.weights->tensors(), ranges);
  out.graph = std::move(quantized.graph);
  out.weights = std::make_shared<const graph::Weights>(std::move(quantized.tensors));
  out.precision = "int8";
  out.numerics = "native";  // its calibration and int8 kernels are
  return out;
}

QuantizeOutcome quantize_version(registry::Repository& repository, const QuantizeOptions& options, Progress& progress) {
  Inputs in = read_inputs(repository, options, progress);
  check_is_f32(nn::load_model_json(repository.store(), in.model.digest).value("precision", "f32"));
  QuantizeOutcome outcome;
  outcome.from = in.model;
  std::optional<registry::Version> known;
  if (!options.force) known = known_result(repository, in);
  if (known) {
    outcome.unchanged = true;
    outcome.to = *known;
  } else {
    in.start.environment = canonical(train::environment(kSources, options.level, repository.pool().threads()));
    in.start.code = train::code_state(repository);
    const std::string run = registry::start_run(repository, in.start);
    outcome.to = train::in_run(repository, run, [&] { return quantize_run(repository, options, in, run, progress); });
  }
  if (options.point) point_at(repository, outcome.to);
  return outcome;
}

}  // namespace mlx::compress
