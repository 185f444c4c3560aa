// mlx train: from train.toml to the next version of a model, or `unchanged`.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/cli.h"
#include "cmd/level.h"
#include "registry/repository.h"
#include "train/trainer.h"

namespace mlx::cmd {
namespace {

struct Options {
  std::string config = "train.toml", resume;
  bool force = false;
};

Json to_json(const train::TrainOutcome& outcome) {
  return {{"schema", "mlx.train/1"},
          {"unchanged", outcome.unchanged},
          {"model", outcome.version.name()},
          {"digest", outcome.version.digest.text()},
          {"bytes", outcome.version.bytes},
          {"run", outcome.run.id},
          {"summary", parse_json(outcome.run.summary, "run:" + outcome.run.id)}};
}

void print(const train::TrainOutcome& outcome, Context& context) {
  const Json summary = parse_json(outcome.run.summary, "run:" + outcome.run.id);
  context.line(fmt::format("{}  {}  run:{}{}", context.bold(outcome.version.name()), outcome.version.digest.brief(),
                           outcome.run.id, outcome.unchanged ? "  " + context.green("unchanged") : ""));
  if (outcome.unchanged) return;
  const char* what = "summary";
  std::string text = fmt::format("  {} steps in {:.1f} s, {:.0f} images/s; loss {:.4f}, accuracy {:.2f} %",
                                 json_int(summary, "steps", what), json_number(summary, "seconds", what),
                                 json_number(summary, "images_per_second", what), json_number(summary, "loss", what),
                                 100 * json_number(summary, "accuracy", what));
  if (summary.contains("valid_accuracy"))
    text += fmt::format("; held out: {:.2f} %", 100 * json_number(summary, "valid_accuracy", what));
  context.line(text);
}

int run(const Options& options, Context& context) {
  train::TrainOptions train;
  train.force = options.force;
  train.resume = options.resume;
  train.title = context.command_line();
  train.level = chosen_level();
  const train::TrainConfig config = train::read_train_config(join_path(context.folder(), options.config));
  const train::TrainOutcome outcome = train::train(context.repository(), config, train, context.progress());
  if (context.wants_json()) context.json(to_json(outcome));
  print(outcome, context);
  return 0;
}

}  // namespace

Command add_train() {
  auto options = std::make_shared<Options>();
  Command command;
  command.name = "train";
  command.summary = "Train a model from a config: makes its next version, and a run";
  command.group = "work";
  command.options = {
      option("-c,--config", "FILE", options->config, "What to train: [data], [model], [train] (default: train.toml)",
             Complete::kFile),
      option("--resume", "RUN", options->resume, "Go on with a run that was stopped, from its last checkpoint",
             Complete::kRun),
      flag("--force", options->force, "Train although nothing changed"),
  };
  command.examples = {"mlx train -c train.toml", "mlx train -c train.toml --resume run:3f9c21aa"};
  command.run = [options](Context& context) { return run(*options, context); };
  return command;
}

}  // namespace mlx::cmd
