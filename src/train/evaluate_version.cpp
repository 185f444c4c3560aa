// Evaluation through the repository: a run with a key, and an attachment on the model's version.

#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "train/batches.h"
#include "train/evaluate.h"
#include "train/inputs.h"
#include "train/numerics.h"
#include "train/run_scope.h"

namespace mlx::train {
namespace {

// What a model is measured on.
struct Question {
  const registry::Version& model;
  const registry::Version& data;
  const std::string& split;
  kernels::Level level;
};

Evaluation measure(registry::Repository& repository, const Question& asked, Progress& progress) {
  const nn::Model loaded = nn::load_model(repository.store(), asked.model.digest);
  check_kind(loaded, data::kind_of(repository.store(), asked.data.digest, asked.split));
  const data::Split loaded_split =
      data::load(repository.store(), asked.data.digest, asked.split, reading_of(loaded), progress);
  Evaluation evaluation = evaluate(loaded, loaded_split, asked.level, repository.pool(), progress);
  evaluation.data = asked.data.digest;
  evaluation.split = asked.split;
  return evaluation;
}

// False, and a warning, where the disk does not take it: the figures are worth having all the same, and reading what
// they are made from must not write either.
bool record_if_possible(registry::Repository& repository, Progress& progress, const std::function<void()>& record) {
  try {
    record();
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo) throw;
    repository.store().stop_keeping();
    progress.warn(fmt::format("this evaluation is not recorded: {}", error.message));
    return false;
  }
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
  const Question asked{outcome.model, data, split, level};
  std::string run;
  outcome.recorded = record_if_possible(repository, progress, [&] {
    start.code = code_state(repository);
    run = registry::start_run(repository, start);
  });
  if (!outcome.recorded) {
    outcome.evaluation = measure(repository, asked, progress);
    return outcome;
  }
  outcome.evaluation = in_run(repository, run, [&] {
    const Evaluation evaluation = measure(repository, asked, progress);
    outcome.recorded = record_if_possible(repository, progress, [&] {
      const Json json = to_json(evaluation);
      registry::attach(repository, asked.model.digest, "evaluation", data.digest.text() + "#" + split,
                       as_bytes(canonical(json)));
      registry::end_run(repository, run, "done", {}, json);
    });
    return evaluation;
  });
  return outcome;
}

}  // namespace mlx::train
