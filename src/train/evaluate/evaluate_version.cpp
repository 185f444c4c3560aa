// Evaluation of what is stored: of a version, or of a folder of files.

#include "train/evaluate/evaluate_version.h"

#include "base/json.h"
#include "base/path.h"
#include "data/kinds/photos.h"
#include "data/splits.h"
#include "infer/examples.h"
#include "store/worktree/scan.h"
#include "train/evaluate/evaluate.h"
#include "train_sources.h"
#include "work/inputs.h"
#include "work/work.h"

namespace mlx::train {
namespace {

// What determines an evaluation beside model and data. Photos are decoded by libraries: another version of them may
// give other pixels.
Json parameters(const store::Store& store, const Digest& model, const Digest& dataset, const std::string& split) {
  Json out = {{"split", split}};
  const data::Reading reading = infer::reading_of(nn::load_description(store, model));
  const data::Division* const division = reading.division ? &*reading.division : nullptr;
  const std::string libraries = data::photo_libraries(data::stored_split(store, dataset, split, division));
  if (!libraries.empty()) out["libraries"] = libraries;
  return out;
}

}  // namespace

Evaluation evaluate_on(const store::Store& store, const Digest& dataset, const std::string& split,
                       const nn::Model& model, kernels::Backend backend, Pool& pool, Progress& progress,
                       const data::MemoryBudget& budget) {
  data::Reading reading = infer::reading_of(model);
  infer::check_kind(model, data::kind_of(store, dataset, split, reading));
  reading.budget = budget;
  const data::DatasetPtr loaded = data::load(store, dataset, split, reading, progress);
  Evaluation evaluation = evaluate(model, *loaded, backend, pool, progress);
  evaluation.data = dataset;
  evaluation.split = split;
  evaluation.skipped = loaded->describe().photos.skipped;
  return evaluation;
}

Evaluation evaluate_on_folder(const std::string& folder, const std::string& split, const nn::Model& model,
                              kernels::Backend backend, store::Disk& disk, Pool& pool, Progress& progress,
                              const data::MemoryBudget& budget) {
  const TempFolder place;
  const std::string name = join_path(place.path(), "store");
  store::Store::create(name, disk);
  store::Store store(name, disk, pool, {.interruption = &progress.interruption()});
  const Digest dataset = store::add_folder(store, folder, nullptr, nullptr, pool, progress).id;
  return evaluate_on(store, dataset, split, model, backend, pool, progress, budget);
}

EvaluateOutcome evaluate_version(registry::Repository& repository, const std::string& model, const std::string& dataset,
                                 const std::string& split, bool force, const std::string& title,
                                 kernels::Backend backend, Progress& progress, const data::MemoryBudget& budget) {
  EvaluateOutcome out;
  out.model = work::resolve_model(repository, model);
  const registry::Version data = work::resolve_dataset(repository, dataset, progress);
  work::Work work;
  work.command = "eval";
  work.title = title;
  work.inputs = {{"model", out.model.digest}, {"data", data.digest}};
  work.params = canonical(parameters(repository.store(), out.model.digest, data.digest, split));
  work.numerics = {Digest::parse(MLX_TRAIN_SOURCES), backend};
  work.force = force;
  work.runs_unrecorded = true;
  const auto body = [&](work::ActiveRun& run) {
    const nn::Model loaded = nn::load_model(repository.store(), out.model.digest);
    out.evaluation =
        evaluate_on(repository.store(), data.digest, split, loaded, backend, repository.pool(), progress, budget);
    Json summary = to_json(out.evaluation);
    run.attachments.push_back({out.model.digest, "evaluation", data.digest.text() + "#" + split, canonical(summary)});
    return summary;
  };
  const work::Outcome outcome = work::run_once(repository, work, body, progress);
  if (outcome.unchanged)
    out.evaluation = evaluation_from_json(parse_json(outcome.run.summary, "run:" + outcome.run.id));
  out.unchanged = outcome.unchanged;
  out.recorded = outcome.recorded;
  return out;
}

}  // namespace mlx::train
