// Merging as a run: unchanged where it is known, else a version.
#include "train/merge.h"

#include "base/json.h"
#include "nn/finetune.h"
#include "registry/versions/domains.h"
#include "train/numerics.h"
#include "train/run_scope.h"

namespace mlx::train {
namespace {

std::optional<registry::Version> known_result(registry::Repository& repository, const registry::Version& from,
                                              const Digest& key) {
  const std::optional<registry::Run> done = registry::find_done_run(repository, key);
  if (!done || done->outputs.empty()) return std::nullopt;
  return registry::version_of(repository, from.artifact, done->outputs[0].version);
}

registry::Version merge_run(registry::Repository& repository, const registry::Version& from, const std::string& run) {
  const nn::Model model = nn::merged(nn::load_model(repository.store(), from.digest));
  registry::NewVersion version;
  version.artifact = from.artifact;
  version.kind = registry::ArtifactKind::kModel;
  version.message = fmt::format("{} with its adapters merged", from.name());
  version.run = run;
  version.parent = from.digest;
  registry::store_under_domain_of(repository, from.artifact);
  version.manifest = nn::store_model(repository.store(), model, from.digest);
  registry::Version made = registry::create_version(repository, version).version;
  registry::end_run(repository, run, "done", {{"model", made.digest}},
                    {{"bytes", made.bytes}, {"bytes_before", from.bytes}});
  return made;
}

}  // namespace

MergeOutcome merge_version(registry::Repository& repository, const registry::Version& from,
                           const TrainOptions& options) {
  registry::RunStart start;
  start.command = "merge";
  start.title = options.title;
  start.inputs = {{"model", from.digest}};
  start.params = "{}";
  start.key = run_key(start.command, start.inputs, start.params, numerics_id(train_sources(), options.level));
  MergeOutcome outcome;
  const std::optional<registry::Version> known = known_result(repository, from, start.key);
  if (known && !options.force) {
    outcome.unchanged = true;
    outcome.version = *known;
    return outcome;
  }
  start.environment = canonical(environment(train_sources(), options.level, repository.pool().threads()));
  start.code = code_state(repository);
  const std::string run = registry::start_run(repository, start);
  outcome.version = in_run(repository, run, [&] { return merge_run(repository, from, run); });
  return outcome;
}

}  // namespace mlx::train
