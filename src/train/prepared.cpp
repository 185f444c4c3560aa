// Reads the description of the data, builds the model for it, and settles what the config left open.
#include "train/prepared.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "infer/examples.h"
#include "train/build_model.h"
#include "train/loop/part_graph.h"
#include "train/trainer.h"

namespace mlx::train {
namespace {

// Throws kUsage if so many ranks cannot hold the parts of the model.
void check_parts(const TrainConfig& config, const nn::Built& built) {
  if (config.ranks_of_model() == 1) return;
  const std::string place = fmt::format("{}: [train] {}: ", config.file, division_text(config));
  const char* const keys = config.tp == 1 ? "pp" : config.pp == 1 ? "tp" : "tp and pp";
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw Error(ErrorKind::kUsage, place + what, hint);
  };
  if (built.lora)
    refuse("adapters are trained by ranks that hold the whole model",
           fmt::format("leave {} or [model] lora out", keys));
  if (!built.frozen.empty()) {
    refuse("frozen weights are for ranks that hold the whole model",
           fmt::format("leave {} or [model] freeze out", keys));
  }
  if (config.local_sgd.wanted())
    refuse("the workers of local SGD hold whole models", fmt::format("leave {} or sync_every out", keys));
  if (config.tp > 1 && config.optimizer.name == "muon")
    refuse("muon works on whole matrices", "use optimizer = \"adamw\", or leave tp out");
  if (config.pp > 1 && config.accumulate == 1) {
    refuse("stages work on different micro-batches of a batch, and it has one",
           "set accumulate to several times pp, and batch to a multiple of it");
  }
  try {
    (void)part_of_model(built, config, 0);
  } catch (const Error& error) {
    refuse(error.message, config.tp > 1 ? "tp divides the heads, kv_heads and hidden widths of gpt2 and llama"
                                        : "pp cuts gpt2 and llama behind each attention and each mlp");
  }
}

// Throws kUsage if ranks cannot share the optimizer's state.
void check_zero(const TrainConfig& config) {
  if (config.zero == 0) return;
  const std::string place = fmt::format("{}: [train] zero = {}: ", config.file, config.zero);
  if (config.optimizer.name == "muon")
    throw Error(ErrorKind::kUsage, place + "muon works on whole matrices",
                "use optimizer = \"adamw\", or leave zero out");
  if (config.local_sgd.wanted())
    throw Error(ErrorKind::kUsage, place + "each worker of local SGD has an optimizer of its own",
                "leave zero or sync_every out");
  if (config.ranks_of_model() > 1)
    throw Error(ErrorKind::kUsage, place + "the optimizer's state is divided among ranks that hold whole models",
                config.tp > 1 ? "leave zero or tp out" : "leave zero or pp out");
}

// Throws kUsage if ranks cannot have different shares of a batch.
void check_balance(const TrainConfig& config) {
  if (!config.balance) return;
  const std::string place = fmt::format("{}: [train] balance: ", config.file);
  if (config.local_sgd.wanted())
    throw Error(ErrorKind::kUsage, place + "each worker of local SGD has the same share of a batch",
                "leave balance or sync_every out");
  if (config.ranks_of_model() > 1)
    throw Error(ErrorKind::kUsage, place + "ranks that hold parts of a model have the same batch",
                config.tp > 1 ? "leave balance or tp out" : "leave balance or pp out");
}

// Throws kUsage if updates cannot wait.
void check_async(const TrainConfig& config, kernels::Backend backend) {
  if (config.async == 0) return;
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: [train] async = {}: {}", config.file, config.async, what), hint);
  };
  if (backend.can().own_memory) refuse("a GPU has nobody to wait for", "leave async out, or --device cpu");
  if (config.local_sgd.wanted())
    refuse("the workers of local SGD exchange no gradients", "leave async or sync_every out");
  if (config.zero > 0) refuse("with zero each update waits for weights from all ranks", "leave async or zero out");
  if (config.synchronised_norms) refuse("each batch norm waits for all ranks", "leave async or batch_norm out");
  if (config.balance) refuse("shares change between steps, and steps overlap", "leave async or balance out");
  if (config.ranks_of_model() > 1)
    refuse("ranks that hold parts of a model wait for each other in each step",
           fmt::format("leave async or {} out", config.tp > 1 ? "tp" : "pp"));
}

// Throws kUsage if batch norms cannot be over the micro-batches of all ranks.
void check_norms(const TrainConfig& config, const nn::Built& built) {
  if (!config.synchronised_norms) return;
  const std::string place = fmt::format("{}: [train] batch_norm = \"synchronised\": ", config.file);
  if (config.local_sgd.wanted())
    throw Error(ErrorKind::kUsage, place + "the workers of local SGD do not wait for each other in a step",
                "leave batch_norm or sync_every out");
  if (!graph::has_batch_norm(graph::freeze(built.graph, built.frozen)))
    throw Error(ErrorKind::kUsage, place + "the model trains no batch norm", "leave batch_norm out");
}

// Throws kUsage unless teacher and model mean the same by what goes in and comes out.
void check_teacher(const nn::Model& teacher, const TrainConfig& config, const data::Description& data,
                   const nn::Built& built) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorKind::kUsage, "{}: [distill] teacher = \"{}\": {}", config.file, config.distill.teacher, what);
  };
  if (!teacher.labels.empty() && teacher.labels != data.names) refuse("it knows other classes than the data");
  const auto &own = config.reading.base->tokenizer, &its = teacher.preprocessing.tokenizer;
  if (own && its && !(*own == *its)) refuse("it has another tokenizer than the model to start from");
  const std::int64_t context = infer::context_of(teacher);
  if (context < built.context)
    refuse(fmt::format("it takes {} tokens, the model {}: set [model] context", context, built.context));
  try {
    (void)graph::with_teacher(built.graph, *built.teacher);
  } catch (const Error& error) {
    refuse(error.message);
  }
}

void take_teacher(const nn::Model& teacher, const TrainConfig& config, const data::Description& data,
                  nn::Built& built) {
  built.teacher = graph::to_inference(teacher.graph);
  check_teacher(teacher, config, data, built);
}

}  // namespace

Prepared prepare(const store::Store& store, const Digest& dataset, TrainConfig config, const nn::Model* base,
                 kernels::Backend backend, Progress& progress, const nn::Model* teacher) {
  Prepared out;
  out.config = std::move(config);
  TrainConfig& c = out.config;
  // Columns and tokens must mean what they meant when the base's weights were trained.
  const nn::Model* const like = base ? base : teacher;
  if (like) c.reading.base = std::make_shared<data::Preprocessing>(like->preprocessing);
  out.data = data::describe(store, dataset, c.train_split, c.reading);
  for (const std::string& warning : out.data.table.warnings) progress.warn(warning);
  c.reading.photos.libraries = out.data.photos.libraries;
  out.built = build_model(c, out.data, base);
  if (teacher) take_teacher(*teacher, c, out.data, out.built);
  check_parts(c, out.built);
  check_zero(c);
  check_balance(c);
  check_async(c, backend);
  check_norms(c, out.built);
  std::int64_t examples = 0;
  if (!c.batch_given) {
    examples = data::training_examples(store, dataset, c.train_split, c.reading, out.data, c.hold_out,
                                       out.built.context, kEnoughExamples);
  }
  settle(c, *out.data.kind, examples);
  c.precision = name_of(precision_of(c, out.data, backend));
  if (teacher && c.precision == "fp16")
    throw Error(ErrorKind::kUsage, fmt::format("{}: [distill] with precision fp16", c.file), "bf16 is as fast");
  return out;
}

work::Work work_of(const Prepared& prepared, const Digest& dataset, kernels::Backend backend) {
  work::Work work;
  work.command = "train";
  work.inputs = {{"data", dataset}};
  work.params = resolved(prepared.config, prepared.built);
  work.numerics = numerics_of(backend, prepared.config.portable);
  work.makes = {prepared.config.name};
  return work;
}

}  // namespace mlx::train
