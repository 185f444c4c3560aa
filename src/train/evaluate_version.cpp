// Evaluation through the repository: a run with a key, and an attachment on the model's version.

#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "store/worktree/scan.h"
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
  return evaluate_on(repository.store(), asked.data.digest, asked.split, loaded, asked.level, repository.pool(),
                     progress);
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

Evaluation evaluate_on(const store::Store& store, const Digest& dataset, const std::string& split,
                       const nn::Model& model, kernels::Level level, Pool& pool, Progress& progress) {
  check_kind(model, data::kind_of(store, dataset, split));
  const data::Split loaded = data::load(store, dataset, split, reading_of(model), progress);
  Evaluation evaluation = evaluate(model, loaded, level, pool, progress);
  evaluation.data = dataset;
  evaluation.split = split;
  return evaluation;
}

Evaluation evaluate_on_folder(const std::string& folder, const std::string& split, const nn::Model& model,
                              kernels::Level level, store::Disk& disk, Pool& pool, Progress& progress) {
  const TempFolder place;
  const std::string name = join_path(place.path(), "store");
  store::Store::create(name, disk);
  store::Store store(name, disk, pool);
  const Digest dataset = store::add_folder(store, folder, nullptr, nullptr, pool, progress).id;
  return evaluate_on(store, dataset, split, model, level, pool, progress);
}

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
  start.key = run_key(start.command, start.inputs, start.params, numerics_id(train_sources(), level));
  if (!force) {
    if (const std::optional<registry::Run> done = registry::find_done_run(repository, start.key)) {
      outcome.unchanged = true;
      outcome.evaluation = evaluation_from_json(parse_json(done->summary, "run:" + done->id));
      return outcome;
    }
  }
  start.environment = canonical(environment(train_sources(), level, repository.pool().threads()));
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
