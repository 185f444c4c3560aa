// Evaluation through the repository: a run with a key, and an attachment on the model's version.

#include "base/json.h"
#include "train/batches.h"
#include "train/evaluate.h"
#include "train/inputs.h"
#include "train/numerics.h"
#include "train/run_scope.h"

namespace mlx::train {
namespace {

Evaluation evaluate_run(registry::Repository& repository, const registry::Version& model, const registry::Version& data,
                        const std::string& split, kernels::Level level, const std::string& run, Progress& progress) {
  const nn::Model loaded = nn::load_model(repository.store(), model.digest);
  check_kind(loaded, data::kind_of(repository.store(), data.digest, split));
  const data::Split loaded_split = data::load(repository.store(), data.digest, split, reading_of(loaded), progress);
  Evaluation evaluation = evaluate(loaded, loaded_split, level, repository.pool(), progress);
  evaluation.data = data.digest;
  evaluation.split = split;
  const Json json = to_json(evaluation);
  registry::attach(repository, model.digest, "evaluation", data.digest.text() + "#" + split, as_bytes(canonical(json)));
  registry::end_run(repository, run, "done", {}, json);
  return evaluation;
}

}  // namespace

EvaluateOutcome evaluate_version(registry::Repository& repository, const std::string& model, const std::string& dataset,
                                 const std::string& split, bool force, const std::string& title, kernels::Level level,
                                 Progress& progress) {
  EvaluateOutcome outcome;
  outcome.model = resolve_model(repository, model);
  const registry::Version data = resolve_dataset(repository, dataset, progress);
  registry::RunStart start;
  start.command = "eval";
  start.title = title;
  start.inputs = {{"model", outcome.model.digest}, {"data", data.digest}};
  start.params = canonical({{"split", split}});
  start.key = run_key(start.command, start.inputs, start.params, numerics_id(level));
  if (!force) {
    if (const std::optional<registry::Run> done = registry::find_done_run(repository, start.key)) {
      outcome.unchanged = true;
      outcome.evaluation = evaluation_from_json(parse_json(done->summary, "run:" + done->id));
      return outcome;
    }
  }
  start.environment = canonical(environment(level, repository.pool().threads()));
  start.code = code_state(repository);
  const std::string run = registry::start_run(repository, start);
  outcome.evaluation = in_run(
      repository, run, [&] { return evaluate_run(repository, outcome.model, data, split, level, run, progress); });
  return outcome;
}

}  // namespace mlx::train
