// mlx train: from train.toml to the next version of a model, or `unchanged`.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/module.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/backend.h"
#include "cmd/cli/cli.h"
#include "cmd/cli/standard_error.h"
#include "cmd/data_memory.h"
#include "cmd/print_profile.h"
#include "cmd/ranks.h"
#include "cmd/show_ranks.h"
#include "cmd/train_ranks.h"
#include "data/kind.h"
#include "data/rows.h"
#include "registry/repository.h"
#include "train/trainer.h"

namespace mlx::cmd {
namespace {

Json to_json(const train::TrainOutcome& outcome) {
  Json json = {{"schema", "mlx.train/1"},
               {"unchanged", outcome.unchanged},
               {"model", outcome.version.name()},
               {"digest", outcome.version.digest.text()},
               {"bytes", outcome.version.bytes},
               {"run", outcome.run.id},
               {"summary", parse_json(outcome.run.summary, "run:" + outcome.run.id)}};
  if (outcome.adapters) json["adapters"] = outcome.adapters->name();
  return json;
}

// The validation metrics by which models of each kind are judged.
std::string held_out_text(const Json& summary) {
  const auto number = [&](const char* key) { return json_number(summary, key, "summary"); };
  if (summary.contains("valid_bits_per_byte")) {
    return fmt::format("{:.4f} bits per byte, perplexity {:.3f}", number("valid_bits_per_byte"),
                       number("valid_perplexity"));
  }
  if (summary.contains("valid_rmse")) {
    const std::string r2 = summary.contains("valid_r2") ? fmt::format(", R² {:.4f}", number("valid_r2")) : "";
    return fmt::format("RMSE {}{}", brief_number(number("valid_rmse")), r2);
  }
  return summary.contains("valid_accuracy") ? fmt::format("{:.2f} %", 100 * number("valid_accuracy")) : "";
}

void print(const train::TrainOutcome& outcome, Context& context) {
  const Json summary = parse_json(outcome.run.summary, "run:" + outcome.run.id);
  context.line(fmt::format("{}  {}  run:{}{}", context.bold(outcome.version.name()), outcome.version.digest.brief(),
                           outcome.run.id, outcome.unchanged ? "  " + context.green("unchanged") : ""));
  if (outcome.adapters)
    context.line(fmt::format("  the weights of {} with its adapters merged", outcome.adapters->name()));
  if (outcome.unchanged) return;
  const char* what = "summary";
  const std::int64_t from = summary.contains("resumed_from") ? json_int(summary, "resumed_from", what) : 0;
  std::string text = fmt::format("  {} steps in {:.1f} s", json_int(summary, "steps", what) - from,
                                 json_number(summary, "seconds", what));
  for (const data::Kind* kind : data::kinds()) {
    const std::string key = std::string(kind->unit) + "_per_second";
    if (summary.contains(key)) text += fmt::format(", {:.0f} {}/s", json_number(summary, key, what), kind->unit);
  }
  if (json_string(summary, "precision", what) != "f32") text += ", in " + json_string(summary, "precision", what);
  text += fmt::format("; training data: loss {:.4f}", json_number(summary, "loss", what));
  if (summary.contains("accuracy"))
    text += fmt::format(", accuracy {:.2f} %", 100 * json_number(summary, "accuracy", what));
  const std::string held_out = held_out_text(summary);
  text += held_out.empty() ? "; nothing held out" : "; held out: " + held_out;
  if (summary.contains("kept_step")) text += fmt::format(" (of step {})", json_int(summary, "kept_step", what));
  if (summary.contains("stopped_early")) text += "; stopped early";
  if (from > 0) text += fmt::format("; went on from step {}", from);
  context.line(text);
  if (const std::string ranks = ranks_text(summary); !ranks.empty()) context.line("  " + ranks);
  if (summary.contains("table")) context.line("  " + data::columns_text(summary["table"]));
  if (summary.contains("memory")) {
    const auto size = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
    const char* of = summary["memory"].contains("device") ? "GPU memory" : "memory";
    context.line(fmt::format("  {}: {} at the peak, {} expected", of, size(json_int(summary, "peak_memory", what)),
                             size(json_int(summary["memory"], "peak", what))));
  }
  if (summary.contains("init")) {
    const Json& init = summary["init"];
    std::vector<std::string> fresh;
    for (const Json& name : json_array(init, "fresh", what))
      if (name.is_string()) fresh.push_back(name.get<std::string>());
    context.line(fmt::format("  started from {}{}", json_string(init, "version", what),
                             fresh.empty() ? "" : fmt::format("; fresh: {}", fmt::join(fresh, ", "))));
  }
}

void write_trace(const std::string& file, const train::Profile& profile, Context& context) {
  const std::string path = join_path(context.folder(), file);
  write_file_atomically(path, train::chrome_trace(profile));
  context.say(fmt::format("{}: a trace of {} steps, for ui.perfetto.dev or chrome://tracing", file,
                          std::min(profile.steps, train::kTracedSteps)));
}

// Before the training, which may take hours.
void check_trace(const std::string& file, Context& context) {
  const std::string folder = parent_path(join_path(context.folder(), file));
  if (is_folder(join_path(context.folder(), file))) fail(ErrorKind::kUsage, "--trace {}: is a folder", file);
  if (!is_folder(folder)) fail(ErrorKind::kNotFound, "--trace {}: there is no folder {}", file, folder);
}

// The config with what the command line sets.
train::TrainConfig config_of(const TrainCommand& options, std::int64_t ranks, Context& context) {
  train::TrainConfig config = config_for_ranks(join_path(context.folder(), options.config), options.sets, ranks);
  if (config.local_sgd.wanted() && options.min_ranks > 0)
    fail(ErrorKind::kUsage, "--min-ranks {}: local SGD ([train] sync_every) continues only with all of its workers",
         options.min_ranks);
  if (config.synchronised_norms && options.min_ranks > 0)
    fail(ErrorKind::kUsage,
         "--min-ranks {}: with [train] batch_norm = \"synchronised\" each rank has one micro-batch, so "
         "the training continues only on as many",
         options.min_ranks);
  for (const std::string& set : options.sets) config.options += " --set " + shell_quoted(set);
  if (!options.precision.empty()) train::set_precision(config, options.precision);
  if (!options.numerics.empty()) train::set_numerics(config, options.numerics);
  return config;
}

// What ranks with GPUs do not do: they share batches of whole models, and each updates all of its model.
void check_for_gpus(const TrainCommand& options, const train::TrainConfig& config, bool several) {
  struct Excluded {
    bool wanted;
    const char *what, *hint;
  };
  const Excluded all[] = {
      {config.wire != "f32", "[train] wire is for CPUs", "GPUs send gradients in f32: leave wire out"},
      {config.local_sgd.wanted(), "local SGD ([train] sync_every) is for CPUs", "leave sync_every out"},
      {several && config.ranks_of_model() > 1, "ranks with GPUs hold whole models", "leave tp and pp out"},
      {several && config.zero > 0, "ranks with GPUs have all of the optimizer's state", "leave zero out"},
      {several && config.balance, "ranks with GPUs have as many micro-batches each", "leave balance out"},
      {several && config.synchronised_norms, "batch_norm = \"synchronised\" is for CPUs", "leave batch_norm out"},
      {several && options.encrypt, "--encrypt: GPUs send gradients as they are, by NCCL",
       "leave it out, on a network that is encrypted or trusted; or --device cpu"},
  };
  for (const Excluded& excluded : all)
    if (excluded.wanted)
      throw Error(ErrorKind::kUsage, fmt::format("--device {}: {}", options.device, excluded.what), excluded.hint);
}

kernels::Backend backend_of(const TrainCommand& options, const train::TrainConfig& config, bool several,
                            Context& context) {
  // Portable numerics are those of CPUs: what is free to choose takes one, as several ranks do.
  const bool on_host = config.portable || several || config.local_sgd.wanted() || config.wire != "f32";
  const kernels::Backend backend =
      chosen_backend(context, options.device == "auto" && on_host ? "cpu" : options.device);
  if (backend.can().own_memory) check_for_gpus(options, config, several);
  return backend;
}

void print_unchanged(const train::TrainConfig& config, Context& context) {
  if (context.wants_json()) context.json({{"schema", "mlx.train/1"}, {"dry_run", true}, {"unchanged", true}});
  context.line(fmt::format("{}  {}", context.bold(config.name), context.green("unchanged")));
}

}  // namespace

int run_train(const TrainCommand& options, Context& context) {
  if (!options.trace.empty()) check_trace(options.trace, context);
  const std::vector<dist::Host> hosts = hosts_of(options, context);
  const bool records_only = hosts[0].ranks == 0;  // this machine, of a training on others
  const int wanted = dist::ranks_on(hosts), recorders = records_only ? 1 : 0;
  check_encrypt(options, hosts, context);
  const std::unique_ptr<dist::Communicator> others =
      join_ranks(where_text(options).empty() ? 0 : wanted + recorders, context);
  const Ties ties = ties_of(others.get(), context);
  const std::int64_t ranks = others ? others->ranks() - recorders : wanted;
  if (others && others->rank() > 0) return take_part(*others, context.repository().store(), context), 0;
  train::TrainOptions train;
  train.ranks = others.get();
  train.records_only = records_only;
  train.planned_ranks = static_cast<int>(ranks);
  train.encrypted = options.encrypt;
  train.force = options.force;
  train.fresh = options.fresh;
  train.notice = [&](const std::string& text) { context.say(text); };
  train.begun = [](const std::string& run) { tell_run(run); };
  train.merge = options.merge;
  train.verify_every = options.verify_every;
  train.taken_back = taken_back(context.environment());
  train.memory = allowed_memory(options.memory);
  // Off a terminal it is only in the summary, unless it was asked for.
  if (!options.memory.empty() || isatty(STDERR_FILENO))
    train.tell = [&](const std::string& text) { context.say(text); };
  train.resume = options.resume;
  train.title = context.command_line();
  train::TrainConfig config = config_of(options, ranks, context);
  train.backend = backend_of(options, config, wanted + recorders > 1 || ranks > 1, context);
  if (!others) check_devices(hosts, train.backend);
  train::Profiler profiler(train.backend, context.pool());
  const bool profiles = options.profile || !options.trace.empty();
  const bool host = !train.backend.can().own_memory;  // else --memory is the GPU's
  config.reading.budget = training_data_memory(host ? train.memory : 0, context);
  if (!host) config.options += fmt::format(" --device {}", train.backend.device_word());
  if (train.memory > 0) config.options += " --memory " + options.memory;  // for who resumes it; changes no bit
  config.options += where_text(options);
  if (options.encrypt) config.options += " --encrypt";
  if ((wanted + recorders > 1 && !others) || context.dry_run()) {
    const train::Inquiry inquiry = train::ask_training(context.repository(), config, train, context.progress());
    if (!inquiry.known) return launch(options, hosts, config, inquiry, context);
    if (context.dry_run()) return print_unchanged(config, context), 0;
  }
  if (profiles) train.profiler = &profiler;
  const train::TrainOutcome outcome = train::train(context.repository(), config, train, context.progress());
  const bool profiled = profiles && !outcome.unchanged;
  if (profiled && !profiler.profile().no_peak.empty())
    context.progress().warn("the machine's peak was not measured: " + profiler.profile().no_peak);
  if (context.wants_json()) {
    Json json = to_json(outcome);
    if (profiled) json["profile"] = profile_json(profiler.profile());
    context.json(json);
  }
  print(outcome, context);
  if (profiles && outcome.unchanged) context.say("nothing was trained, so there is no profile: `--force` trains again");
  if (profiled && options.profile) print_profile(context, profiler.profile());
  if (profiled && !options.trace.empty()) write_trace(options.trace, profiler.profile(), context);
  return 0;
}

Command add_train() {
  auto options = std::make_shared<TrainCommand>();
  Command command;
  command.name = "train";
  command.summary = "Train a model from a config: makes its next version, and a run";
  command.group = "work";
  command.word_option = "-c";
  command.dry_run = true;
  command.options = {
      option("-c,--config", "FILE", options->config,
             "The config, with [data], [model] and [train] (default: train.toml)", Complete::kFile),
      {.names = "--set",
       .value = "KEY=VALUE",
       .help = "Set a key of the config, such as train.epochs=20; may be repeated",
       .many = true,
       .texts = &options->sets},
      option("--resume", "RUN", options->resume,
             "Resume a stopped run from its last checkpoint, or train a finished one for longer", Complete::kRun),
      flag("--fresh", options->fresh, "Start from the beginning, even if a stopped run has a checkpoint"),
      device_option(options->device),
      integer("--ranks", "N", options->ranks, "Train with N processes on this machine, which share its cores"),
      option("--hosts", "LIST", options->hosts, "Train on these hosts, such as localhost,b:2 with two processes on b"),
      flag("--ship", options->ship, "Send this mlx to hosts that lack it"),
      integer("--tp", "N", options->tp,
              "Divide the layers of gpt2 and llama among N of the ranks, which hold one model"),
      choice("--zero", "STAGE", {"0", "1"}, options->zero,
             "1 divides the optimizer's state among the ranks (ZeRO): less memory, the same bits"),
      integer("--pp", "N", options->pp,
              "Cut gpt2 and llama into N stages of layers, which ranks of their own train as a pipeline"),
      flag("--balance", options->balance, "Give ranks micro-batches by how fast they are: the same bits"),
      integer("--min-ranks", "N", options->min_ranks,
              "Go on from the last checkpoint without hosts that are lost, while so many ranks are left"),
      integer("--verify-every", "N", options->verify_every,
              "With several ranks: compare after every N steps whether all have the same bits"),
      integer("--sync-every", "H", options->sync_every,
              "Local SGD: each rank trains by itself, and all exchange weights after every H steps; for slow networks"),
      integer("--async", "D", options->async,
              "Each update waits for D more steps, and no rank waits for others that are up to D steps behind"),
      option("--hostfile", "FILE", options->hostfile, "The hosts, one a line", Complete::kFile),
      choice("--wire", "TYPE", {"f32", "bf16"}, options->wire,
             "The type in which gradients go to other ranks (default: the config's, else f32)"),
      flag("--encrypt", options->encrypt, "With --hosts: encrypt and authenticate what ranks send each other"),
      choice("--precision", "TYPE", {"auto", "bf16", "f32", "fp16", "tf32"}, options->precision,
             "The type of products (default: the config's, else f32, on a GPU auto)"),
      choice("--numerics", "WHICH", {"native", "portable"}, options->numerics,
             "portable gives the same bits on every x86-64 with AVX2 and FMA"),
      flag("--force", options->force, "Train even if nothing changed"),
      option("--memory", "SIZE", options->memory, "Limit the peak of memory, such as 4GiB"),
      flag("--merge", options->merge, "With LoRA adapters: also make a version with them merged"),
      flag("--profile", options->profile, "Print where the time goes: by operation, against the machine's peak"),
      option("--trace", "FILE", options->trace, "Write a Chrome trace of some steps, for Perfetto", Complete::kFile),
  };
  command.examples = {"mlx train -c train.toml", "mlx train -c train.toml --resume run:3f9c21aa",
                      "mlx train --set train.epochs=20 --set 'model.hidden=[64, 32]'",
                      "mlx train --hosts localhost,b:2 -n", "mlx train --force --profile --trace steps.json"};
  command.run = [options](Context& context) {
    if (!options->wire.empty()) options->sets.push_back(fmt::format("train.wire={}", options->wire));
    for (const auto& [key, value] : {std::pair{"sync_every", options->sync_every}, std::pair{"async", options->async},
                                     std::pair{"tp", options->tp}, std::pair{"pp", options->pp}})
      if (value != kNotGiven) options->sets.push_back(fmt::format("train.{}={}", key, value));
    if (options->balance) options->sets.emplace_back("train.balance=true");
    if (!options->zero.empty()) options->sets.push_back(fmt::format("train.zero={}", options->zero));
    return run_train(*options, context);
  };
  return command;
}

}  // namespace mlx::cmd
