// Training as work (work/work.h): its inputs, the run that it continues, steps, model, pointer.

#include "train/trainer.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/process_use.h"
#include "base/text.h"
#include "data/kinds/image_keys.h"
#include "nn/finetune.h"
#include "nn/model.h"
#include "registry/versions/domains.h"
#include "store/crypto/keys.h"
#include "train/base_model.h"
#include "train/loop/goes_on.h"
#include "train/loop/leaks.h"
#include "train/loop/share_state.h"
#include "train/loop/training_loop.h"
#include "train/merge.h"
#include "train/prepared.h"
#include "train/remote_sink.h"
#include "train/repository_sink.h"
#include "train_sources.h"
#include "work/inputs.h"
#include "work/work.h"

namespace mlx::train {
namespace {

// Tells the other ranks once what to train; at the latest at its end that there is nothing.
class Call {
 public:
  explicit Call(dist::Communicator* ranks) : ranks_(ranks) {}
  ~Call() {
    try {
      tell({});
    } catch (const Error&) {
      // They are gone.
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  void tell(SharedWork work) {
    if (!ranks_ || std::exchange(told_, true)) return;
    share_work(*ranks_, work);
  }

 private:
  dist::Communicator* ranks_;
  bool told_ = false;
};

struct Training {
  registry::Repository& repository;
  TrainConfig config;
  TrainOptions options;
  Progress& progress;

  registry::Version dataset;
  data::Description data;                  // of the train split
  std::optional<Base> base;                // what the model starts from
  std::optional<Base> teacher;             // what it learns from, beside the data
  std::optional<nn::FinetuneStart> start;  // its tensors, loaded once they are needed; with those of the teacher
  std::optional<Digest> checkpoint;        // of another run that this one continues from
  nn::Built built;
  work::Work work;

  std::string run;       // once it has begun
  bool trained = false;  // all steps are done
  Call call = Call(options.ranks);
};

// Afterwards the config names everything that it left to the data or the device.
void read_inputs(Training& t) {
  t.base = read_base(t.repository, t.config);
  t.teacher = read_teacher(t.repository, t.config);
  if (t.teacher && (t.options.ranks || t.options.planned_ranks > 1))
    throw Error(ErrorKind::kUsage, fmt::format("{}: [distill] is for one process", t.config.file),
                "leave --ranks and --hosts out");
  Prepared prepared =
      prepare(t.repository.store(), t.dataset.digest, std::move(t.config), t.base ? &t.base->model : nullptr,
              t.options.backend, t.progress, t.teacher ? &t.teacher->model : nullptr);
  t.config = std::move(prepared.config);
  t.data = std::move(prepared.data);
  t.built = std::move(prepared.built);
  if (t.options.merge && !t.built.lora)
    fail(ErrorKind::kUsage, "--merge is for models with adapters, and {} has no [model] lora", t.config.file);
  if (t.options.merge) nn::check_merges(t.built.graph);
}

Prepared prepared(const Training& t) {
  return {t.config, t.data, t.built};
}

work::Work describe(const Training& t) {
  work::Work work = work_of(prepared(t), t.dataset.digest, t.options.backend);
  work.title = t.options.title;
  if (t.base) work.inputs.emplace_back("init", t.base->version.digest);
  if (t.teacher) work.inputs.emplace_back("teacher", t.teacher->version.digest);
  work.force = t.options.force;
  work.resume = t.options.resume;
  return work;
}

// The run to resume may be different from the run that this training would make: on a CPU instead of a GPU, with
// another driver or version of mlx, with more epochs or a lower rate, or begun by somebody else. Then the training
// continues as a new run. That run has the checkpoint as an input, because its result depends on both runs. A run that
// began like this is resumed with that input again.
void go_on_from(Training& t) {
  if (t.work.resume.empty()) return;
  const registry::Run run = registry::read_run(t.repository, t.work.resume);
  if (run.command != "train")
    fail(ErrorKind::kUsage, "run:{} is a run of `mlx {}`, expected a training", run.id, run.command);
  const bool stays = run.status == registry::RunStatus::kDone || registry::is_own_run(t.repository, run.id);
  if (stays && run.key == key_of(t.work)) return;
  work::Work as_it_began = t.work;
  const std::optional<Digest> began_with = checkpoint_input(run);
  if (began_with) as_it_began.inputs.emplace_back(kCheckpointInput, *began_with);
  const bool the_same = stays && run.key == key_of(as_it_began);
  if (!the_same) {
    check_goes_on(run, t.work);
    t.work.resume.clear();
  }
  t.checkpoint = the_same ? *began_with : last_checkpoint(t.repository, run);
  t.work.inputs.emplace_back(kCheckpointInput, *t.checkpoint);
}

// All of the work but what is done.
void describe_work(Training& t) {
  if (t.config.portable) t.options.backend = kernels::portable_backend(t.options.backend);
  // Before the training, which may take hours.
  registry::require_kind(t.repository, t.config.name, registry::ArtifactKind::kModel);
  t.dataset = work::resolve_dataset(t.repository, t.config.dataset, t.progress);
  read_inputs(t);
  t.work = describe(t);
  go_on_from(t);
}

// Chooses a stopped run of the same key to continue, if there is one and the options allow it.
void take_up(const Training& t, work::Work& work) {
  if (!work.resume.empty() || t.options.force || t.options.fresh) return;
  const std::optional<registry::Run> run = registry::find_unfinished_run(t.repository, key_of(work));
  if (!run) return;
  work.resume = run->id;
  if (!t.options.notice) return;
  t.options.notice(fmt::format(
      "run:{} is the same training, {}, with a checkpoint at step {}: continuing from it (--fresh starts anew)",
      run->id, name_of(run->status), registry::checkpoints(t.repository, run->id).back().step));
}

// Work before the run: determines which run it is, and checks for errors.
void prepare(Training& t, work::Work& work) {
  take_up(t, work);
  if (t.base) t.start = read_start(t.repository, t.config, t.built, t.data.names, *t.base);
  if (t.teacher) {
    if (!t.start) t.start = nn::FinetuneStart{nn::initialize(t.built, t.config.seed), {}};
    add_teacher(t.repository, *t.teacher, t.start->tensors);
  }
  if (t.options.tell && !t.data.table.columns.empty()) t.options.tell(data::columns_text(data::to_json(t.data.table)));
}

// The command that resumes the run, as a hint.
std::string how_to_resume(const TrainConfig& config, const std::string& run) {
  return fmt::format("to continue: mlx train -c {}{} --resume run:{}", shell_quoted(config.file), config.options, run);
}

nn::Model make_model(const Training& t, const TrainingData& data, TrainingResult& result) {
  nn::Model model;
  model.family = t.built.family;
  model.config = t.built.config;
  model.graph = t.built.graph;
  model.precision = nn::precision_of(model.graph);
  model.weights = std::make_shared<const graph::Weights>(std::move(result.tensors));
  model.preprocessing = data.preprocessing;
  model.labels = t.data.names;
  if (t.config.portable) model.numerics = "portable";
  if (t.base && !nn::architecture_of(model).empty()) model.kept = t.base->model.kept;
  const TrainConfig& config = t.config;
  Json trained_on = {
      {"dataset", t.dataset.digest.text()},
      {"hold_out", config.hold_out.share > 0 ? Json(config.hold_out.share) : Json(config.hold_out.count)},
      {"train", config.train_split},
      {"valid", config.valid_split}};
  if (config.reading.division) trained_on["split"] = to_json(config.reading.division->rule);
  if (!config.reading.column.empty()) trained_on["column"] = config.reading.column;
  if (Json skip = data::skip_bad_json(config.reading.photos); !skip.is_null()) trained_on["skip_bad"] = std::move(skip);
  model.data = canonical(trained_on);
  return model;
}

// The bad photos that were left out, by split.
Json skipped_json(const TrainingData& data, const TrainConfig& config) {
  Json out = Json::object();
  const auto add = [&](const std::string& split, const data::DatasetPtr& dataset) {
    if (dataset && !dataset->describe().photos.skipped.empty()) out[split] = dataset->describe().photos.skipped;
  };
  add(config.train_split, data.train);
  if (!config.valid_split.empty()) add(config.valid_split, data.valid);
  return out;
}

int ranks_of(const Training& t) {
  return t.options.ranks ? t.options.ranks->ranks() - (t.options.records_only ? 1 : 0) : 1;
}

// Of all ranks.
std::int64_t threads_of(const Training& t, const TrainingResult& result) {
  std::int64_t threads = 0;
  for (const RankFigures& rank : result.ranks) threads += rank.threads;
  return threads > 0 ? threads : t.repository.pool().threads();
}

Json summary_of(const Training& t, const TrainingResult& result) {
  Json out = {{"cpu_seconds", cpu_seconds()},
              {"loss", result.loss},
              {"memory", to_json(result.memory)},
              {"peak_memory", result.peak_memory},
              {"precision", t.config.precision},
              {"seconds", result.seconds},
              {"steps", result.steps},
              {std::string(t.data.kind->unit) + "_per_second", result.per_second}};
  if (result.accuracy) out["accuracy"] = *result.accuracy;
  for (const auto& [name, value] : result.valid) out["valid_" + name] = value;
  if (result.from > 0) out["resumed_from"] = result.from;
  const double hours = result.seconds / 3600;
  out["rank_hours"] = hours * ranks_of(t);
  out["core_hours"] = hours * static_cast<double>(threads_of(t, result));
  if (t.options.ranks) {
    out["ranks"] = ranks_of(t);
    if (t.config.tp > 1) out["tp"] = t.config.tp;
    if (t.config.zero > 0) out["zero"] = t.config.zero;
    if (t.config.async > 0) out["async"] = t.config.async;
    if (t.config.pp > 1) out["pp"] = t.config.pp;
    Json communication = {{"bytes_sent", result.communication.bytes_sent},
                          {"seconds", result.communication.exchanging},
                          {"waiting", result.communication.waiting},
                          {"encrypted", t.options.ranks->encrypted()}};
    if (!t.options.taken_back.empty()) out["taken_back"] = t.options.taken_back;
    add_ranks(communication, result.ranks, t.data.kind->unit);
    out["communication"] = std::move(communication);
  }
  if (result.kept != result.steps) out["kept_step"] = result.kept;
  if (result.stopped_early) out["stopped_early"] = true;
  if (!t.data.table.columns.empty()) out["table"] = data::to_json(t.data.table);
  if (t.base) out["init"] = {{"version", t.base->version.name()}, {"fresh", t.start->fresh}};
  if (t.teacher) out["teacher"] = t.teacher->version.name();
  return out;
}

work::NewOutput output_of(const Training& t) {
  if (t.teacher && !t.base)
    return {t.config.name, fmt::format("distilled from {} on {}", t.teacher->version.name(), t.dataset.name()), {}};
  if (!t.base) return {t.config.name, "trained on " + t.dataset.name(), std::nullopt};
  return {t.config.name, fmt::format("fine-tuned from {} on {}", t.base->version.name(), t.dataset.name()),
          t.base->version.digest};
}

LoopOptions loop_options(const Training& t, const work::ActiveRun& run) {
  LoopOptions loop;
  loop.resume = !run.work.resume.empty();
  if (t.checkpoint) loop.from = [&t] { return read_checkpoint(t.repository.store(), *t.checkpoint); };
  loop.backend = t.options.backend;
  loop.profiler = t.options.profiler;
  loop.memory = t.options.memory;
  loop.tell = t.options.tell;
  if (t.start) loop.initial = &t.start->tensors;
  // If a model has its own key domain, erasing the key would not erase the kept state.
  loop.keep_state = t.config.keep_state && registry::domain_of(t.repository, t.config.name) == store::kMainDomain;
  loop.how_to_resume = how_to_resume(t.config, run.id);
  loop.ranks = t.options.ranks;
  loop.verify_every = t.options.verify_every;
  return loop;
}

// Keeps with the model what is known of its training data, for comparisons with what it is asked later. Copies what
// `mlx describe` or `mlx check` have measured: measuring takes as long as reading the data, so a training does not. A
// dataset with a key of its own keeps its statistics to itself, because erasing the key must erase them.
void keep_statistics(const Training& t, const Digest& model, work::ActiveRun& run) {
  registry::Repository& repository = t.repository;
  if (registry::domain_of(repository, t.dataset.artifact) != registry::domain_of(repository, t.config.name)) return;
  for (const registry::Attachment& each : registry::attachments(repository, t.dataset.digest, "statistics")) {
    try {
      const Bytes blob = repository.store().read_blob(each.blob);
      run.attachments.push_back(
          {model, "statistics", fmt::format("{}#{}", t.dataset.digest.text(), each.name), std::string(as_text(blob))});
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;  // else they are in another clone
    }
  }
}

// What the other ranks need to know. Where the training starts is rank 0's.
SharedWork shared_work(const Training& t) {
  SharedWork work;
  work.dataset = t.dataset.digest.text();
  if (t.base) work.base = t.base->version.digest.text();
  work.key = key_of(work_of(prepared(t), t.dataset.digest, t.options.backend)).text();
  work.config = t.config.source;
  work.precision = t.config.precision;
  work.device = t.options.backend.device_word();
  work.portable = t.config.portable;
  work.memory = t.options.memory;
  work.verify_every = t.options.verify_every;
  work.records_only = t.options.records_only;
  work.profile = t.options.profiler != nullptr;
  return work;
}

// The body: trains, stores the model, returns the summary.
Json train_in(Training& t, work::ActiveRun& run) {
  t.run = run.id;
  if (t.options.begun) t.options.begun(run.id);
  t.call.tell(shared_work(t));
  const TrainingData data = load_training_data(t.repository.store(), t.dataset.digest, t.config, t.progress);
  const LoopOptions loop = loop_options(t, run);
  RepositorySink sink(t.repository, run.id, key_of(run.work), loop.resume, t.progress);
  TrainingResult result = t.options.records_only
                              ? record_training(*t.options.ranks, loop, sink, t.progress)
                              : run_training(t.config, t.built, data, loop, sink, t.repository.pool(), t.progress);
  t.trained = true;
  work::require_repository(t.repository);
  run.keep_state = loop.keep_state;
  const nn::Model model = make_model(t, data, result);
  Json summary = summary_of(t, result);
  if (Json skipped = skipped_json(data, t.config); !skipped.empty()) summary["skipped"] = std::move(skipped);
  if (data.near_leaks > 0) summary["near_leaks"] = data.near_leaks;
  summary["leaks_allowed"] = leaks_allowed(t.config);
  const work::NewOutput output = output_of(t);
  const store::ManifestSummary stored = work::store_output(
      run, output, [&](store::Store& store) { return nn::store_model(store, model, output.parent); });
  keep_statistics(t, stored.id, run);
  return summary;
}

// Puts the command that resumes before the error's own hint, if the run has a checkpoint. Not if the run diverged or
// was refused, because that would happen again.
void add_how_to_resume(const Training& t, Error& error) {
  if (t.run.empty() || (error.kind != ErrorKind::kMissing && error.kind != ErrorKind::kIo)) return;
  const std::string how = how_to_resume(t.config, t.run);
  if (t.trained && error.kind == ErrorKind::kIo)  // the disk refused the model
    error.hint = "make room (`mlx gc --yes --grace 0` frees old checkpoints), then " + how;
  else if (!registry::checkpoints(t.repository, t.run).empty())
    error.hint = error.hint.empty() ? how : how + "; " + error.hint;
}

// A model that was made while more leaks were allowed is no answer where they are refused.
void refuse_leaks(const Training& t, const registry::Run& run) {
  const Json summary = run.summary.empty() ? Json::object() : parse_json(run.summary, "run:" + run.id);
  if (allows_fewer_leaks(t.config, summary))
    (void)load_training_data(t.repository.store(), t.dataset.digest, t.config, t.progress);
}

// Moves the pointer to the requested version.
TrainOutcome finish(const Training& t, work::Outcome done) {
  TrainOutcome outcome;
  outcome.unchanged = done.unchanged;
  outcome.run = std::move(done.run);
  outcome.version = std::move(done.versions[0]);
  if (t.options.merge) {
    const MergeOutcome merged = merge_version(t.repository, outcome.version, t.options, t.progress);
    outcome.adapters = outcome.version;
    outcome.version = merged.version;
    outcome.unchanged = outcome.unchanged && merged.unchanged;
  }
  work::point_at(t.repository, outcome.version);
  return outcome;
}

}  // namespace

work::Numerics numerics_of(kernels::Backend backend, bool portable) {
  return {Digest::parse(MLX_TRAIN_SOURCES), backend, portable};
}

Inquiry ask_training(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
                     Progress& progress) {
  Training t{repository, config, options, progress};
  describe_work(t);
  Inquiry out;
  out.dataset = t.dataset.digest;
  if (t.base) out.base = t.base->version.digest;
  out.known = work::known_answer(repository, t.work).has_value();
  if (!out.known)
    out.stages = least_memory(t.built, t.config, t.data, options.planned_ranks, options.encrypted, t.options.backend);
  for (const StageMemory& stage : out.stages) out.memory = std::max(out.memory, host_memory(stage.memory));
  return out;
}

TrainOutcome train(registry::Repository& repository, const TrainConfig& config, const TrainOptions& options,
                   Progress& progress) {
  Training t{repository, config, options, progress};
  describe_work(t);
  const auto body = [&](work::ActiveRun& run) { return train_in(t, run); };
  work::Outcome done;
  try {
    done = work::run_once(repository, t.work, body, progress, [&](work::Work& work) { prepare(t, work); });
  } catch (Error& error) {
    add_how_to_resume(t, error);
    throw;
  }
  if (done.unchanged) refuse_leaks(t, done.run);
  return finish(t, std::move(done));
}

}  // namespace mlx::train
