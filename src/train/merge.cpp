// Merging as work: known, or a version.
#include "train/merge.h"

#include "base/json.h"
#include "nn/finetune.h"
#include "train_sources.h"
#include "work/work.h"

namespace mlx::train {

MergeOutcome merge_version(registry::Repository& repository, const registry::Version& from, const TrainOptions& options,
                           Progress& progress) {
  work::Work work;
  work.command = "merge";
  work.title = options.title;
  work.inputs = {{"model", from.digest}};
  work.numerics = {Digest::parse(MLX_TRAIN_SOURCES), options.backend};
  work.makes = {from.artifact};
  work.force = options.force;
  const auto body = [&](work::ActiveRun& run) {
    const nn::Model model = nn::merged(nn::load_model(repository.store(), from.digest));
    const work::NewOutput output{from.artifact, fmt::format("{} with its adapters merged", from.name()), from.digest};
    const store::ManifestSummary made = work::store_output(
        run, output, [&](store::Store& store) { return nn::store_model(store, model, from.digest); });
    return Json{{"bytes", made.bytes}, {"bytes_before", from.bytes}};
  };
  const work::Outcome outcome = work::run_once(repository, work, body, progress);
  return {outcome.unchanged, outcome.versions[0]};
}

}  // namespace mlx::train
