// mlx distill: mlx train with a teacher, which the command line names.
#include <fmt/format.h>

#include <memory>

#include "cmd/backend.h"
#include "cmd/cli/cli.h"
#include "cmd/train_ranks.h"

namespace mlx::cmd {
namespace {

struct DistillOptions {
  TrainCommand train;
  std::string teacher;
  double temperature = 0, share = 0;  // 0: the config's
};

int run_distill(const DistillOptions& options, Context& context) {
  TrainCommand train = options.train;
  train.sets.push_back(fmt::format("distill.teacher=\"{}\"", options.teacher));
  if (options.temperature != 0) train.sets.push_back(fmt::format("distill.temperature={}", options.temperature));
  if (options.share != 0) train.sets.push_back(fmt::format("distill.share={}", options.share));
  return run_train(train, context);
}

}  // namespace

Command add_distill() {
  auto options = std::make_shared<DistillOptions>();
  TrainCommand& train = options->train;
  Command command;
  command.name = "distill";
  command.summary = "Train a model on its data and on what a teacher says of it";
  command.group = "work";
  command.dry_run = true;
  command.options = {
      argument("TEACHER", options->teacher, "The reference of the model to learn from", Complete::kReference),
      option("-c,--config", "FILE", train.config, "The student's config (default: train.toml)", Complete::kFile),
      number("--temperature", "T", options->temperature,
             "What logits are divided by before they are compared (default: the config's, else 2)"),
      number("--share", "S", options->share,
             "The teacher's share of the loss, up to 1 (default: the config's, else 0.5)"),
      {.names = "--set",
       .value = "KEY=VALUE",
       .help = "Set a key of the config, such as train.epochs=20; may be repeated",
       .many = true,
       .texts = &train.sets},
      option("--resume", "RUN", train.resume, "Resume a stopped run from its last checkpoint", Complete::kRun),
      flag("--fresh", train.fresh, "Start from the beginning, even if a stopped run has a checkpoint"),
      device_option(train.device),
      choice("--precision", "TYPE", {"auto", "bf16", "f32", "tf32"}, train.precision,
             "The type of products (default: the config's, else f32, on a GPU auto)"),
      choice("--numerics", "WHICH", {"native", "portable"}, train.numerics,
             "portable gives the same bits on every x86-64 with AVX2 and FMA"),
      flag("--force", train.force, "Train even if nothing changed"),
      option("--memory", "SIZE", train.memory, "Limit the peak of memory, such as 4GiB"),
  };
  command.examples = {"mlx distill large@v3 -c student.toml",
                      "mlx distill lm@v2 -c small.toml --temperature 3 --share 0.8"};
  command.run = [options](Context& context) { return run_distill(*options, context); };
  return command;
}

}  // namespace mlx::cmd
