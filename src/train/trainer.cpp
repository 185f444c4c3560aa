// A training as work (work/work.h): what it is made of, which run it goes on with, steps, model, pointer.

#include "train/trainer.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/process_use.h"
#include "base/text.h"
#include "registry/versions/domains.h"
#include "store/crypto/keys.h"
#include "train/base_model.h"
#include "train/batches.h"
#include "train/build_model.h"
#include "train/goes_on.h"
#include "train/merge.h"
#include "train/repository_sink.h"
#include "train/training_loop.h"
#include "train_sources.h"
#include "work/inputs.h"
#include "work/work.h"

namespace mlx::train {
namespace {

struct Inputs {
  registry::Version dataset;
  data::Description data;            // of the train split
  std::optional<Base> base;          // what the model starts from
  std::optional<Digest> checkpoint;  // of another run, which this one goes on from
  nn::Built built;
  work::Work work;
};

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
  in.dataset = work::resolve_dataset(repository, config.dataset, progress);
  in.data = data::describe(repository.store(), in.dataset.digest, config.train_split, config.reading);
  for (const std::string& warning : in.data.table.warnings) progress.warn(warning);
  in.built = build_model(config, in.data, in.base ? &in.base->model : nullptr);
  settle_for(repository, in, config);
  if (options.merge && !in.built.lora)
    fail(ErrorKind::kUsage, "--merge is for models with adapters, and {} has no [model] lora", config.file);
  config.precision = name_of(precision_of(config, in.data, options.level));
  in.work.command = "train";
  in.work.title = options.title;
  in.work.inputs = {{"data", in.dataset.digest}};
  if (in.base) in.work.inputs.emplace_back("init", in.base->version.digest);
  in.work.params = resolved(config, in.built);
  in.work.numerics = {Digest::parse(MLX_TRAIN_SOURCES), options.level, config.portable};
  in.work.makes = {config.name};
  in.work.force = options.force;
  in.work.resume = options.resume;
  return in;
}

// Where the run to resume is another one than this training would make (on a CPU instead of a GPU, with another driver
// or version of mlx, with more epochs or a lower rate), or somebody else began it, what goes on here is a run of its
// own. It has the checkpoint as an input, since its result depends on what both did. A run that began like that is
// resumed with that input again.
void go_on_from(registry::Repository& repository, Inputs& in) {
  if (in.work.resume.empty()) return;
  const registry::Run run = registry::read_run(repository, in.work.resume);
  if (run.command != "train")
    fail(ErrorKind::kUsage, "run:{} is of `mlx {}`, expected a training", run.id, run.command);
  const bool stays = run.status == "done" || registry::is_own_run(repository, run.id);
  if (stays && run.key == key_of(in.work)) return;
  work::Work as_it_began = in.work;
  const std::optional<Digest> began_with = checkpoint_input(run);
  if (began_with) as_it_began.inputs.emplace_back(kCheckpointInput, *began_with);
  const bool the_same = stays && run.key == key_of(as_it_began);
  if (!the_same) {
    check_goes_on(run, in.work);
    in.work.resume.clear();
  }
  in.checkpoint = the_same ? *began_with : last_checkpoint(repository, run);
  in.work.inputs.emplace_back(kCheckpointInput, *in.checkpoint);
}

// Where nothing was said of a run that was stopped, and there is one of the same key: on with that.
void take_up(registry::Repository& repository, const TrainOptions& options, work::Work& work) {
  if (!work.resume.empty() || options.force || options.fresh) return;
  const std::optional<registry::Run> run = registry::find_unfinished_run(repository, key_of(work));
  if (!run) return;
  work.resume = run->id;
  if (!options.notice) return;
  options.notice(
      fmt::format("run:{} is the same training, {}, and has a checkpoint at step {}: going on from it "
                  "(--fresh begins anew)",
                  run->id, run->status, registry::checkpoints(repository, run->id).back().step));
}

// "go on with: mlx train …", as a hint.
std::string how_to_resume(const TrainConfig& config, const std::string& run) {
  return fmt::format("go on with: mlx train -c {}{} --resume run:{}", shell_quoted(config.file), config.options, run);
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

// Of a base, or none.
work::NewOutput output_of(const TrainConfig& config, const Inputs& in) {
  if (!in.base) return {config.name, "trained on " + in.dataset.name(), std::nullopt};
  return {config.name, fmt::format("fine-tuned from {} on {}", in.base->version.name(), in.dataset.name()),
          in.base->version.digest};
}

LoopOptions loop_options(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
                         const Inputs& in, const work::ActiveRun& run) {
  LoopOptions loop;
  loop.resume = !run.work.resume.empty();
  if (in.checkpoint) loop.from = [&repository, &in] { return read_checkpoint(repository.store(), *in.checkpoint); };
  loop.level = options.level;
  loop.profiler = options.profiler;
  loop.memory = options.memory;
  loop.tell = options.tell;
  // The state of a model that can be erased by its own key would not be erased with it.
  loop.keep_state = config.keep_state && registry::domain_of(repository, config.name) == store::kMainDomain;
  loop.how_to_resume = how_to_resume(config, run.id);
  return loop;
}

// The body: trains and stores the model.
Json train_in(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
              const Inputs& in, const std::optional<nn::Start>& start, work::ActiveRun& run, bool& trained,
              Progress& progress) {
  TrainingData data = load_training_data(repository.store(), in.dataset.digest, config, progress);
  // The base's weights expect what they were trained on.
  if (in.base) data.preprocessing.normalization = in.base->model.preprocessing.normalization;
  LoopOptions loop = loop_options(repository, config, options, in, run);
  if (start) loop.initial = &start->tensors;
  RepositorySink sink(repository, run.id, key_of(run.work), loop.resume, progress);
  TrainingResult result = run_training(config, in.built, data, loop, sink, repository.pool(), progress);
  work::require_repository(repository);
  trained = true;
  run.keep_state = loop.keep_state;
  const nn::Model model = make_model(in, config, data, result);
  const work::NewOutput output = output_of(config, in);
  work::store_output(run, output, [&](store::Store& store) { return nn::store_model(store, model, output.parent); });
  Json summary = summary_of(result, in.data.kind, config);
  if (!in.data.table.columns.empty()) summary["table"] = data::to_json(in.data.table);
  if (start) summary["init"] = {{"version", in.base->version.name()}, {"fresh", start->fresh}};
  return summary;
}

// In front of what else the error recommends: the run goes on from its last checkpoint, where it has one. Not where it
// diverged or was refused, which would come again. `trained`: the model could not be stored; what was trained up to the
// last checkpoint is not trained again.
void add_how_to_resume(registry::Repository& repository, const TrainConfig& config, const std::string& run,
                       bool trained, Error& error) {
  if (error.kind != ErrorKind::kMissing && error.kind != ErrorKind::kIo) return;
  const std::string how = how_to_resume(config, run);
  if (trained && error.kind == ErrorKind::kIo) {
    error.hint = "make room (`mlx gc --yes --grace 0` frees old checkpoints), then " + how;
    return;
  }
  if (registry::checkpoints(repository, run).empty()) return;
  error.hint = error.hint.empty() ? how : how + "; " + error.hint;
}

// The pointer moves to what the command was asked for.
TrainOutcome finish(registry::Repository& repository, const TrainOptions& options, work::Outcome done,
                    Progress& progress) {
  TrainOutcome outcome;
  outcome.unchanged = done.unchanged;
  outcome.run = std::move(done.run);
  outcome.version = std::move(done.versions[0]);
  if (options.merge) {
    const MergeOutcome merged = merge_version(repository, outcome.version, options, progress);
    outcome.adapters = outcome.version;
    outcome.version = merged.version;
    outcome.unchanged = outcome.unchanged && merged.unchanged;
  }
  work::point_at(repository, outcome.version);
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
  go_on_from(repository, in);
  std::optional<nn::Start> start;
  const auto prepare = [&](work::Work& work) {
    take_up(repository, options, work);
    if (in.base) start = read_start(repository, config, in.built, in.data.names, *in.base);
    const Json table = in.data.table.columns.empty() ? Json() : data::to_json(in.data.table);
    if (options.tell && !table.is_null()) options.tell(data::columns_text(table));
  };
  std::string run_id;
  bool trained = false;
  const auto body = [&](work::ActiveRun& run) {
    run_id = run.id;
    return train_in(repository, config, options, in, start, run, trained, progress);
  };
  work::Outcome done;
  try {
    done = work::run_once(repository, in.work, body, progress, prepare);
  } catch (Error& error) {
    if (!run_id.empty()) add_how_to_resume(repository, config, run_id, trained, error);
    throw;
  }
  return finish(repository, options, std::move(done), progress);
}

}  // namespace mlx::train
