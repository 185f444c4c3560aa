// mlx quantize: a smaller, faster child of a model, calibrated on data.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/backend.h"
#include "cmd/cli/cli.h"
#include "cmd/data_memory.h"
#include "cmd/quantization_text.h"
#include "compress/quantize.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kByKind = std::numeric_limits<std::int64_t>::min();  // the kind of data decides
constexpr std::int64_t kLargestGroup = 65536;

struct QuantizeOptions {
  std::string model, to = "int8", method, calibrate, split = "train", memory, max_loss, max_kl, data, data_split;
  std::int64_t examples = kByKind, group = kByKind, windows = kByKind;
  bool point = false, force = false;
};

compress::Groups groups_of(const QuantizeOptions& options) {
  compress::Groups groups;
  groups.bits = options.to == "int4" ? 4 : 8;
  if (options.group != kByKind) groups.size = options.group;
  if (groups.size < 32 || groups.size > kLargestGroup || groups.size % 32 != 0)
    fail(ErrorKind::kUsage, "--group: expected a multiple of 32 up to {}, got {}", kLargestGroup, options.group);
  return groups;
}

// Null for int8 and int4.
const kernels::BlockType* block_type_of(const QuantizeOptions& options) {
  if (options.to.starts_with("int")) return nullptr;
  std::string name = options.to;
  std::ranges::transform(name, name.begin(),
                         [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
  for (const std::int64_t number : {kernels::kQ2K, kernels::kQ3K, kernels::kQ4K, kernels::kQ5K, kernels::kQ6K})
    if (const kernels::BlockType* type = kernels::find_block_type(number); name == type->name) return type;
  fail(ErrorKind::kUsage, "--to {}: not a type of blocks", options.to);
}

compress::WeightType type_of(const QuantizeOptions& options) {
  const kernels::BlockType* const blocks = block_type_of(options);
  if (blocks && options.group != kByKind)
    fail(ErrorKind::kUsage, "--group is for int8 and int4: blocks of {} have 256 weights", options.to);
  return blocks ? compress::WeightType{{}, blocks} : compress::WeightType{groups_of(options)};
}

// The type, and the one that layers get where a bound wants them wider.
std::vector<compress::WeightType> widths_of(const compress::WeightType& type) {
  std::vector<compress::WeightType> widths{type};
  if (type.blocks && type.blocks->number != kernels::kQ6K)
    widths.push_back({{}, kernels::find_block_type(kernels::kQ6K)});
  if (!type.blocks && type.groups.bits == 4) widths.push_back({{8, type.groups.size}});
  return widths;
}

// "0.5%" or 0.005, at least 0; nullopt if it was not given. A share from 1 on must be in per cent, because 5 alone may
// mean 5%.
std::optional<double> loss_of(const char* option, const std::string& text, bool share) {
  if (text.empty()) return std::nullopt;
  const bool percent = share && text.ends_with('%');
  const std::size_t length = text.size() - (percent ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, value);
  if (error != std::errc() || end != text.data() + length || !std::isfinite(value) || value < 0)
    fail(ErrorKind::kUsage, "{}: expected {} of at least 0, got '{}'", option,
         share ? "a share such as 0.5% or 0.005," : "a number", text);
  if (share && !percent && value >= 1)
    throw Error(ErrorKind::kUsage, fmt::format("{}: {} may mean {}% or {}%", option, text, text, value * 100),
                "add the sign: per cent are meant with it");
  return percent ? value / 100 : value;
}

// What is only for weights that are rounded on data.
void check_no_text_options(const QuantizeOptions& options) {
  const std::pair<const char*, bool> given[] = {{"--max-loss", !options.max_loss.empty()},
                                                {"--max-kl", !options.max_kl.empty()},
                                                {"--data", !options.data.empty()},
                                                {"--data-split", !options.data_split.empty()},
                                                {"--windows", options.windows != kByKind}};
  for (const auto& [name, is_given] : given)
    if (is_given) fail(ErrorKind::kUsage, "{} is for --method with --calibrate", name);
}

compress::TextOptions text_options(const QuantizeOptions& options) {
  compress::TextOptions text;
  text.plan.method = *compress::method_named(options.method);
  text.plan.widths = widths_of(type_of(options));
  text.bound = {loss_of("--max-loss", options.max_loss, true), loss_of("--max-kl", options.max_kl, false)};
  text.data = options.data;
  text.split = options.data_split;
  if (options.windows == kByKind) return text;
  if (options.windows < 1) fail(ErrorKind::kUsage, "--windows: expected at least 1, got {}", options.windows);
  text.windows = options.windows;
  return text;
}

// With --method weights in groups or blocks, without --calibrate too; with --calibrate alone int8 with ranges.
void choose_way(const QuantizeOptions& options, compress::QuantizeOptions& quantize) {
  if (!options.calibrate.empty() && !options.method.empty()) {
    quantize.text = text_options(options);
    return;
  }
  check_no_text_options(options);
  if (options.calibrate.empty()) {
    if (!options.method.empty() && options.method != "rtn")
      throw Error(ErrorKind::kUsage, fmt::format("--method {} needs data", options.method), "add --calibrate DATASET");
    if (options.examples != kByKind) fail(ErrorKind::kUsage, "--examples is for --calibrate");
    if (!options.memory.empty()) fail(ErrorKind::kUsage, "--memory is for --calibrate");
    quantize.type = type_of(options);
    return;
  }
  if (options.to != "int8")
    throw Error(ErrorKind::kUsage, "--calibrate without --method is for --to int8, which it finds ranges for",
                "add --method gptq, or awq or rtn, for weights in groups or blocks");
  if (options.group != kByKind)
    throw Error(ErrorKind::kUsage, "--group is for weights in groups, not for int8 with ranges",
                "leave --calibrate out, or add --method");
}

// What layers have whose inputs are not whole groups or blocks.
void warn_of_other_layers(const QuantizeOptions& options, const Json& summary, Progress& progress) {
  if (!summary.contains("layers")) return;  // int8 with ranges
  const std::int64_t layers = summary.value("layers", 0), left = summary.value("layers_left", 0),
                     small = summary.value("layers_in_small_blocks", 0);
  if (left > 0)
    progress.warn(fmt::format("{} of {} linear layers stay as they are stored: their inputs are not whole groups of {}",
                              left, layers + left, type_of(options).unit()));
  if (small > 0)
    progress.warn(
        fmt::format("{} of {} linear layers have blocks or groups of 32: their inputs are not whole blocks "
                    "of 256",
                    small, layers + left));
}

Json layer_plans_json(const compress::QuantizePlan& plan) {
  Json list = Json::array();
  for (const compress::PlannedLayer& layer : plan.plans.layers)
    list.push_back({{"name", layer.name},
                    {"type", layer.type},
                    {"outputs", layer.outputs},
                    {"inputs", layer.inputs},
                    {"bytes_before", layer.bytes_before},
                    {"bytes", layer.bytes}});
  const compress::LayerPlans& plans = plan.plans;
  return {{"schema", "mlx.quantize/1"}, {"dry_run", true},
          {"from", plan.from.name()},   {"weights_before", plans.weights_before},
          {"weights", plans.weights},   {"layers", static_cast<std::int64_t>(list.size()) - plans.left},
          {"layers_left", plans.left},  {"layers_in_small_blocks", plans.small},
          {"planned", std::move(list)}};
}

int print_layer_plans(const compress::QuantizePlan& plan, Context& context) {
  const Json json = layer_plans_json(plan);
  if (context.wants_json()) context.json(json);
  const compress::LayerPlans& plans = plan.plans;
  context.line(fmt::format("{}  {} of {} linear layers would be quantized", context.bold(plan.from.name()),
                           json.value("layers", 0), plans.layers.size()));
  context.line(fmt::format("  weights {} -> {} ({:.3f} of it)", format_bytes(plans.weights_before),
                           format_bytes(plans.weights),
                           static_cast<double>(plans.weights) / static_cast<double>(plans.weights_before)));
  std::size_t width = 5;
  for (const compress::PlannedLayer& layer : plans.layers) width = std::max(width, layer.name.size());
  context.line("");
  context.line(context.dim(fmt::format("  {:<{}}  type    outputs   inputs     before      after", "layer", width)));
  for (const compress::PlannedLayer& layer : plans.layers)
    context.line(fmt::format("  {:<{}}  {:<6}  {:>7}  {:>7}  {:>9}  {:>9}", printable(layer.name), width, layer.type,
                             layer.outputs, layer.inputs, format_bytes(layer.bytes_before), format_bytes(layer.bytes)));
  return 0;
}

int run_quantize(const QuantizeOptions& options, Context& context) {
  const bool given = options.examples != kByKind;
  if (given && options.examples < 1)
    fail(ErrorKind::kUsage, "--examples: expected at least 1, got {}", options.examples);
  compress::QuantizeOptions quantize;
  quantize.model = options.model;
  choose_way(options, quantize);
  quantize.dataset = options.calibrate;
  quantize.split = options.split;
  if (given) quantize.calibration.examples = options.examples;
  quantize.point = options.point;
  quantize.force = options.force;
  quantize.title = context.command_line();
  quantize.backend = chosen_backend(context);
  quantize.budget = data_memory(allowed_memory(options.memory), context);
  if (context.dry_run())
    return print_layer_plans(compress::plan_version(context.repository(), quantize, context.progress()), context);
  const compress::QuantizeOutcome outcome =
      compress::quantize_version(context.repository(), quantize, context.progress());
  const Json summary = parse_json(outcome.record, "run");
  warn_of_other_layers(options, summary, context.progress());
  const double ratio = static_cast<double>(outcome.to.bytes) / static_cast<double>(outcome.from.bytes);
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.quantize/1"},         {"unchanged", outcome.unchanged},
                 {"from", outcome.from.name()},        {"model", outcome.to.name()},
                 {"digest", outcome.to.digest.text()}, {"bytes_before", outcome.from.bytes},
                 {"bytes", outcome.to.bytes}};
    for (const char* const key : {"precision", "layers", "layers_left", "layers_in_small_blocks", "quantization"})
      if (summary.contains(key)) json[key] = summary[key];
    context.json(json);
  }
  context.line(fmt::format("{}  {}  {} of {}{}", context.bold(outcome.to.name()), outcome.to.digest.brief(),
                           summary.value("precision", options.to), outcome.from.name(),
                           outcome.unchanged ? "  " + context.green("unchanged") : ""));
  context.line(fmt::format("  {} -> {} ({:.3f} of it)", format_bytes(outcome.from.bytes),
                           format_bytes(outcome.to.bytes), ratio));
  if (summary.contains("quantization")) print_quantization(context, summary["quantization"], context.verbose());
  return 0;
}

}  // namespace

Command add_quantize() {
  auto options = std::make_shared<QuantizeOptions>();
  Command command;
  command.name = "quantize";
  command.summary = "Make a smaller child of a model, with weights of four or eight bits";
  command.group = "work";
  command.options = {
      argument("MODEL", options->model, "The model's reference", Complete::kReference),
      choice("--to", "TYPE", {"int8", "int4", "q6_k", "q5_k", "q4_k", "q3_k", "q2_k"}, options->to,
             "The type of weights; q6_k to q2_k are blocks as GGUF has them (default: int8)"),
      choice("--method", "METHOD", {"rtn", "gptq", "awq"}, options->method,
             "How weights of language models are rounded, in groups or blocks (default without --calibrate: rtn)"),
      option("--calibrate", "DATASET", options->calibrate,
             "The dataset whose activations set the ranges, or with --method the rounding", Complete::kReference),
      integer("--group", "N", options->group, "In groups: how many weights have a common scale (default: 32)"),
      option("-s,--split", "SPLIT", options->split, "Which split of it (default: train)"),
      integer("--examples", "N", options->examples,
              "How many images, rows or windows of text to calibrate on (default: 1024, of text 128)"),
      option("--max-loss", "SHARE", options->max_loss,
             "The most that the perplexity may rise by, such as 0.5% (or 0.005): layers stay wider until it holds"),
      option("--max-kl", "NATS", options->max_kl, "The same for the Kullback-Leibler divergence, a token"),
      option("-d,--data", "DATASET", options->data,
             "The held-out text that the loss is measured on (default: that of --calibrate)", Complete::kReference),
      option("--data-split", "SPLIT", options->data_split, "Which split of it (default: valid, or else test)"),
      integer("--windows", "N", options->windows, "At most so many windows of it (default: 256)"),
      data_memory_option(options->memory),
      flag("--point", options->point, "Also move the worktree's pointer to the new version"),
      flag("--force", options->force, "Quantize although the answer is known"),
  };
  command.examples = {"mlx quantize clf --to int8 --calibrate data/fashion --split train", "mlx quantize lm --to int4",
                      "mlx quantize lm --to q4_k", "mlx quantize lm --to q4_k --method rtn --calibrate data/text",
                      "mlx quantize lm --to int4 --group 128 --method gptq --calibrate data/text --max-loss 1%"};
  command.dry_run = true;
  command.verbose = "Show type and error of each layer";
  command.run = [options](Context& context) { return run_quantize(*options, context); };
  return command;
}

}  // namespace mlx::cmd
