// A training as a run: inputs and key, `unchanged` where the key is known, else steps, model, version, pointer.

#include "train/trainer.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "registry/versions/domains.h"
#include "registry/versions/live_runs.h"
#include "registry/versions/pointers.h"
#include "store/crypto/keys.h"
#include "train/base_model.h"
#include "train/batches.h"
#include "train/goes_on.h"
#include "train/inputs.h"
#include "train/merge.h"
#include "train/numerics.h"
#include "train/process_use.h"
#include "train/run_scope.h"
#include "train/training_loop.h"

namespace mlx::train {
namespace {

struct Inputs {
  registry::Version dataset;
  data::Description data;            // of the train split
  std::optional<Base> base;          // what the model starts from
  std::optional<Digest> checkpoint;  // of another run, which this one goes on from
  nn::Built built;
  std::string params;
  Digest key;
  registry::RunStart start;
};

nn::InputSpec input_spec(const data::Description& data) {
  switch (data.kind) {
    case data::Kind::kImages:
      break;
    case data::Kind::kFeatures:
      return nn::InputSpec::rows(data.features, data.outputs);
    case data::Kind::kTokens:
      return nn::InputSpec::tokens(data.outputs);
  }
  return nn::InputSpec::images(data.height, data.width, data.channels, data.outputs);
}

// Keys of [data] that are for another kind of data than there is.
void check_config(const TrainConfig& config, const data::Description& data) {
  const auto refuse = [&](const char* key, const char* what) {
    fail(ErrorKind::kUsage, "{}: [data] {} is for {}, the split holds {}", config.file, key, what,
         data::unit_name(data.kind));
  };
  (void)loss_spec(config, data.targets);
  if (data.kind != data::Kind::kFeatures && !config.reading.rows.targets.empty()) refuse("target", "rows");
  if (data.kind != data::Kind::kFeatures && !config.reading.rows.features.empty()) refuse("features", "rows");
  if (data.kind != data::Kind::kTokens && config.reading.tokenizer != "bytes") refuse("tokenizer", "text");
  if (data.kind != data::Kind::kImages && !(config.augment == data::Augment{})) refuse("augment", "images");
}

// Columns and tokens mean to the base's weights what they meant when those were trained.
void read_as_before(const nn::Model& base, data::Reading& reading) {
  const data::Reading before = reading_of(base);
  reading.base = before.schema;
  reading.known_tokenizer = before.known_tokenizer;
}

// A default that the data decides is one from here on.
void settle_for(registry::Repository& repository, const Inputs& in, TrainConfig& config) {
  const std::int64_t examples =
      config.batch_given ? 0
                         : training_examples(repository.store(), in.dataset.digest, config, in.data, in.built.context);
  settle(config, in.data.kind, examples);
}

// From here on the config names the precision that is used.
Inputs read_inputs(registry::Repository& repository, TrainConfig& config, std::optional<Base> base,
                   const TrainOptions& options, Progress& progress) {
  Inputs in;
  in.base = std::move(base);
  in.dataset = resolve_dataset(repository, config.dataset, progress);
  in.data = data::describe(repository.store(), in.dataset.digest, config.train_split, config.reading);
  for (const std::string& warning : in.data.table.warnings) progress.warn(warning);
  check_config(config, in.data);
  const TomlReader table = model_table(config, in.base);
  in.built = nn::build(table, input_spec(in.data), in.base ? &in.base->model.graph : nullptr);
  nn::read_freeze(table, in.built);
  nn::read_lora(table, in.built);
  settle_for(repository, in, config);
  if (options.merge && !in.built.lora)
    fail(ErrorKind::kUsage, "--merge is for models with adapters, and {} has no [model] lora", config.file);
  config.precision = name_of(precision_of(config, in.data, options.level));
  in.params = resolved(config, in.built);
  in.start.command = "train";
  in.start.title = options.title;
  in.start.inputs = {{"data", in.dataset.digest}};
  if (in.base) in.start.inputs.emplace_back("init", in.base->version.digest);
  in.start.params = in.params;
  in.key = run_key("train", in.start.inputs, in.params, numerics_id(train_sources(), options.level, config.portable));
  in.start.key = in.key;
  return in;
}

// Where the run to resume is another one than this training would make (on a CPU instead of a GPU, with another driver
// or version of mlx, with more epochs or a lower rate), or was begun by somebody else, what goes on here is a run of
// its own: it has the checkpoint as an input, since its result depends on what both did. The one that was begun so is
// resumed with that input again.
void go_on_from(registry::Repository& repository, Inputs& in, const TrainConfig& config, TrainOptions& options) {
  if (options.resume.empty()) return;
  const registry::Run run = registry::read_run(repository, options.resume);
  if (run.command != "train")
    fail(ErrorKind::kUsage, "run:{} is of `mlx {}`, expected a training", run.id, run.command);
  const bool stays = run.status == "done" || registry::is_own_run(repository, run.id);
  if (stays && run.key == in.key) return;
  const Digest here = numerics_id(train_sources(), options.level, config.portable);
  const auto add = [&](registry::RunStart& start, const Digest& checkpoint) {
    start.inputs.emplace_back(kCheckpointInput, checkpoint);
    start.key = run_key("train", start.inputs, start.params, here);
  };
  registry::RunStart as_it_began = in.start;
  const std::optional<Digest> began_with = checkpoint_input(run);
  if (began_with) add(as_it_began, *began_with);
  const bool the_same = stays && run.key == as_it_began.key;
  if (!the_same) {
    check_goes_on(run, in.start, here);
    options.resume.clear();
  }
  in.checkpoint = the_same ? *began_with : last_checkpoint(repository, run);
  add(in.start, *in.checkpoint);
  in.key = in.start.key;
}

// Where nothing was said of a run that was stopped, and there is one of the same key: on with that.
void take_up(registry::Repository& repository, const Inputs& in, TrainOptions& options) {
  if (!options.resume.empty() || options.force || options.fresh) return;
  const std::optional<registry::Run> run = registry::find_unfinished_run(repository, in.key);
  if (!run) return;
  options.resume = run->id;
  if (!options.notice) return;
  options.notice(
      fmt::format("run:{} is the same training, {}, and has a checkpoint at step {}: going on from it "
                  "(--fresh begins anew)",
                  run->id, run->status, registry::checkpoints(repository, run->id).back().step));
}

// The run to work in: a new one, or the one that is resumed.
std::string open_run(registry::Repository& repository, Inputs& in, const TrainConfig& config,
                     const TrainOptions& options) {
  if (options.resume.empty()) {
    in.start.environment =
        canonical(environment(train_sources(), options.level, repository.pool().threads(), config.portable));
    in.start.code = code_state(repository);
    return registry::start_run(repository, in.start);
  }
  const std::string run = registry::read_run(repository, options.resume).id;
  repository.live_runs().hold(run);  // or another process is at it: then nothing of it may be touched
  return run;
}

// Whether there is a run to go on with: not done yet.
bool resumes(registry::Repository& repository, const TrainOptions& options) {
  return !options.resume.empty() && registry::read_run(repository, options.resume).status != "done";
}

nn::Model make_model(const Inputs& in, const TrainConfig& config, const TrainingData& data, TrainingResult& result) {
  nn::Model model;
  model.family = in.built.family;
  model.config = in.built.config;
  model.graph = in.built.graph;
  model.tensors = std::move(result.tensors);
  model.preprocessing = data.preprocessing;
  model.labels = in.data.names;
  if (config.portable) model.numerics = "portable";
  if (data.train.text.tokenizer) model.tokenizer = *data.train.text.tokenizer;
  model.data = canonical({{"dataset", in.dataset.digest.text()},
                          {"hold_out", config.valid_share > 0 ? Json(config.valid_share) : Json(config.valid_count)},
                          {"train", config.train_split},
                          {"valid", config.valid_split}});
  return model;
}

// The most that was held at once, of the memory that the forecast is about.
std::int64_t held_at_peak(const MemoryForecast& forecast) {
  return forecast.gpu ? static_cast<std::int64_t>(kernels::cuda_device().peak_bytes()) : peak_memory();
}

Json summary_of(const TrainingResult& result, data::Kind kind, const TrainConfig& config) {
  Json out = {{"cpu_seconds", cpu_seconds()},
              {"loss", result.loss},
              {"memory", to_json(result.memory)},
              {"peak_memory", held_at_peak(result.memory)},
              {"precision", config.precision},
              {"seconds", result.seconds},
              {"steps", result.steps},
              {std::string(data::unit_name(kind)) + "_per_second", result.per_second}};
  if (result.accuracy) out["accuracy"] = *result.accuracy;
  for (const auto& [name, value] : result.valid) out["valid_" + name] = value;
  if (result.from > 0) out["resumed_from"] = result.from;
  if (result.kept != result.steps) out["kept_step"] = result.kept;
  if (result.stopped_early) out["stopped_early"] = true;
  return out;
}

void point_at(registry::Repository& repository, const registry::Version& version) {
  registry::write_pointer(repository, {version.artifact, version.kind, version.digest, version.files, version.bytes});
}

std::optional<TrainOutcome> answer_unchanged(registry::Repository& repository, const TrainConfig& config,
                                             const Digest& key) {
  const std::optional<registry::Run> done = registry::find_done_run(repository, key);
  if (!done || done->outputs.empty()) return std::nullopt;
  const std::optional<registry::Version> version =
      registry::version_of(repository, config.name, done->outputs[0].version);
  if (!version) return std::nullopt;
  TrainOutcome outcome;
  outcome.unchanged = true;
  outcome.run = *done;
  outcome.version = *version;
  return outcome;
}

// Stores the model and names it as the next version.
registry::Version store_version(registry::Repository& repository, const TrainConfig& config, const Inputs& in,
                                const std::string& run, const nn::Model& model) {
  registry::NewVersion version;
  version.artifact = config.name;
  version.kind = registry::ArtifactKind::kModel;
  version.message = "trained on " + in.dataset.name();
  version.run = run;
  if (in.base) {
    version.parent = in.base->version.digest;
    version.message = fmt::format("fine-tuned from {} on {}", in.base->version.name(), in.dataset.name());
  }
  registry::store_under_domain_of(repository, config.name);
  version.manifest = nn::store_model(repository.store(), model, version.parent);
  return registry::create_version(repository, version).version;
}

TrainOutcome train_run(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
                       const Inputs& in, const std::optional<nn::Start>& start, const std::string& run,
                       Progress& progress) {
  TrainingData data = load_training_data(repository.store(), in.dataset.digest, config, progress);
  // The base's weights expect what they were trained on.
  if (in.base) data.preprocessing.normalization = in.base->model.preprocessing.normalization;
  LoopOptions loop;
  loop.run = run;
  loop.key = in.key;
  loop.resume = !options.resume.empty();
  loop.from = in.checkpoint;
  loop.level = options.level;
  loop.profiler = options.profiler;
  loop.memory = options.memory;
  loop.tell = options.tell;
  // The state of a model that can be erased by its own key would not be erased with it.
  loop.keep_state = config.keep_state && registry::domain_of(repository, config.name) == store::kMainDomain;
  if (start) loop.initial = &start->tensors;
  TrainingResult result = run_training(repository, config, in.built, data, loop, progress);
  require_repository(repository);
  const nn::Model model = make_model(in, config, data, result);
  Json summary = summary_of(result, in.data.kind, config);
  if (!in.data.table.columns.empty()) summary["table"] = data::to_json(in.data.table);
  if (start) summary["init"] = {{"version", in.base->version.name()}, {"fresh", start->fresh}};
  TrainOutcome outcome;
  try {
    outcome.version = store_version(repository, config, in, run, model);
  } catch (const Error& error) {  // the last checkpoint stays: what was trained up to it is not trained again
    if (error.kind != ErrorKind::kIo) throw;
    throw Error(error.kind, error.message,
                "make room (`mlx gc --yes --grace 0` frees old checkpoints), then " + how_to_resume(config, run));
  }
  registry::end_run(repository, run, "done", {{"model", outcome.version.digest}}, summary, {}, loop.keep_state);
  outcome.run = registry::read_run(repository, run);
  return outcome;
}

// In front of what else the error recommends: the run goes on from its last checkpoint, where it has one. Not where it
// diverged or was refused, which would come again.
void add_how_to_resume(registry::Repository& repository, const TrainConfig& config, const std::string& run,
                       Error& error) {
  if (error.kind != ErrorKind::kMissing && error.kind != ErrorKind::kIo) return;
  const std::string how = how_to_resume(config, run);
  if (error.hint.find(how) != std::string::npos || registry::checkpoints(repository, run).empty()) return;
  error.hint = error.hint.empty() ? how : how + "; " + error.hint;
}

// The pointer moves to what the command was asked for.
TrainOutcome finish(registry::Repository& repository, const TrainOptions& options, TrainOutcome outcome) {
  if (options.merge) {
    const MergeOutcome merged = merge_version(repository, outcome.version, options);
    outcome.adapters = outcome.version;
    outcome.version = merged.version;
    outcome.unchanged = outcome.unchanged && merged.unchanged;
  }
  point_at(repository, outcome.version);
  return outcome;
}

}  // namespace

TrainOutcome train(registry::Repository& repository, const TrainConfig& given, const TrainOptions& wanted,
                   Progress& progress) {
  TrainConfig config = given;
  TrainOptions options = wanted;
  if (config.portable) options.level = kernels::portable_level(wanted.level);
  std::optional<Base> base = read_base(repository, config);
  if (base) read_as_before(base->model, config.reading);
  Inputs in = read_inputs(repository, config, std::move(base), options, progress);
  go_on_from(repository, in, config, options);
  if (!options.force && !resumes(repository, options)) {
    if (std::optional<TrainOutcome> known = answer_unchanged(repository, config, in.key))
      return finish(repository, options, std::move(*known));
  }
  take_up(repository, in, options);
  std::optional<nn::Start> start;
  if (in.base) start = read_start(repository, config, in.built, in.data.names, *in.base);
  const Json table = in.data.table.columns.empty() ? Json() : data::to_json(in.data.table);
  if (options.tell && !table.is_null()) options.tell(data::columns_text(table));
  const std::string run = open_run(repository, in, config, options);
  TrainOutcome outcome = in_run(repository, run, [&] {
    try {
      return train_run(repository, config, options, in, start, run, progress);
    } catch (Error& error) {
      add_how_to_resume(repository, config, run, error);
      throw;
    }
  });
  return finish(repository, options, std::move(outcome));
}

}  // namespace mlx::train
