// mlx quantize: a smaller, faster child of a model, calibrated on data.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "cmd/backend.h"
#include "cmd/cli/cli.h"
#include "cmd/data_memory.h"
#include "compress/quantize.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kByKind = std::numeric_limits<std::int64_t>::min();  // the kind of data decides
constexpr std::int64_t kLargestGroup = 65536;

struct QuantizeOptions {
  std::string model, to = "int8", data, split = "train", memory;
  std::int64_t examples = kByKind, group = kByKind;
  bool point = false, force = false;
};

compress::Groups groups_of(const QuantizeOptions& options) {
  if (options.examples != kByKind) fail(ErrorKind::kUsage, "--examples is for --calibrate");
  if (!options.memory.empty()) fail(ErrorKind::kUsage, "--memory is for --calibrate");
  compress::Groups groups;
  groups.bits = options.to == "int4" ? 4 : 8;
  if (options.group != kByKind) groups.size = options.group;
  if (groups.size < 32 || groups.size > kLargestGroup || groups.size % 32 != 0)
    fail(ErrorKind::kUsage, "--group: expected a multiple of 32 up to {}, got {}", kLargestGroup, options.group);
  return groups;
}

int run_quantize(const QuantizeOptions& options, Context& context) {
  const bool given = options.examples != kByKind;
  if (given && options.examples < 1)
    fail(ErrorKind::kUsage, "--examples: expected at least 1, got {}", options.examples);
  compress::QuantizeOptions quantize;
  quantize.model = options.model;
  if (options.data.empty()) quantize.groups = groups_of(options);
  if (!options.data.empty() && options.to != "int8")
    fail(ErrorKind::kUsage, "--calibrate is for --to int8: weights of four bits are rounded without data");
  if (!options.data.empty() && options.group != kByKind)
    fail(ErrorKind::kUsage, "--group is for weights that are rounded without --calibrate");
  quantize.dataset = options.data;
  quantize.split = options.split;
  if (given) quantize.calibration.examples = options.examples;
  quantize.point = options.point;
  quantize.force = options.force;
  quantize.title = context.command_line();
  quantize.backend = chosen_backend(context);
  quantize.budget = data_memory(allowed_memory(options.memory), context);
  const compress::QuantizeOutcome outcome =
      compress::quantize_version(context.repository(), quantize, context.progress());
  const double ratio = static_cast<double>(outcome.to.bytes) / static_cast<double>(outcome.from.bytes);
  if (context.wants_json()) {
    context.json({{"schema", "mlx.quantize/1"},
                  {"unchanged", outcome.unchanged},
                  {"from", outcome.from.name()},
                  {"model", outcome.to.name()},
                  {"digest", outcome.to.digest.text()},
                  {"bytes_before", outcome.from.bytes},
                  {"bytes", outcome.to.bytes}});
  }
  context.line(fmt::format("{}  {}  {} of {}{}", context.bold(outcome.to.name()), outcome.to.digest.brief(), options.to,
                           outcome.from.name(), outcome.unchanged ? "  " + context.green("unchanged") : ""));
  context.line(fmt::format("  {} -> {} ({:.3f} of it)", format_bytes(outcome.from.bytes),
                           format_bytes(outcome.to.bytes), ratio));
  return 0;
}

}  // namespace

Command add_quantize() {
  auto options = std::make_shared<QuantizeOptions>();
  Command command;
  command.name = "quantize";
  command.summary = "Make a smaller child of a model, with weights of four or eight bits";
  command.group = "work";
  Option data = option("--calibrate", "DATASET", options->data, "The dataset whose activations set the ranges",
                       Complete::kReference);
  command.options = {
      argument("MODEL", options->model, "The model's reference", Complete::kReference),
      choice("--to", "TYPE", {"int8", "int4"}, options->to, "The type of weights (default: int8)"),
      data,
      integer("--group", "N", options->group,
              "Without --calibrate, of language models: weights with a common scale (default: 32)"),
      option("-s,--split", "SPLIT", options->split, "Which split of it (default: train)"),
      integer("--examples", "N", options->examples,
              "How many images, rows or windows of text to calibrate on (default: 1024, of text 128)"),
      data_memory_option(options->memory),
      flag("--point", options->point, "Also move the worktree's pointer to the new version"),
      flag("--force", options->force, "Quantize although the answer is known"),
  };
  command.examples = {"mlx quantize clf --to int8 --calibrate data/fashion --split train", "mlx quantize lm --to int4"};
  command.run = [options](Context& context) { return run_quantize(*options, context); };
  return command;
}

}  // namespace mlx::cmd
