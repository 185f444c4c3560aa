// The part of `mlx diff` about models, for people: tensors, parameters, graph and metrics.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/diff.h"

namespace mlx::cmd {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

// "12.3 %", with enough digits that little is not nothing.
std::string percent(double share) {
  if (share == 0) return "0 %";
  if (share < 0.0001) return fmt::format("{:.1e}", share);
  return fmt::format("{:.{}f} %", 100 * share, share < 0.01 ? 3 : 1);
}

std::string relative(const diff::TensorChange& tensor) {
  return tensor.norm_before > 0 ? percent(tensor.norm_difference / tensor.norm_before) : "";
}

std::string type_text(const std::string& before, const std::string& after) {
  return before == after ? after : before + ">" + after;
}

void print_tensor(Context& context, const diff::TensorChange& tensor, std::size_t wide) {
  using Kind = diff::TensorChange::Kind;
  const std::string name = cut_to(printable(tensor.name), wide);
  const std::string gap(wide - std::min(wide, name.size()), ' ');
  if (tensor.kind == Kind::kAdded) {
    context.line(context.green(
        fmt::format("  + {}{}  {:<8} {}", name, gap, tensor.dtype_after, shape_text(tensor.shape_after))));
  } else if (tensor.kind == Kind::kRemoved) {
    context.line(context.red(
        fmt::format("  - {}{}  {:<8} {}", name, gap, tensor.dtype_before, shape_text(tensor.shape_before))));
  } else if (!tensor.compared) {
    const bool same_shape = tensor.shape_before == tensor.shape_after;
    context.line(fmt::format("  {} {}{}  {:<8} {}{}", context.yellow("~"), name, gap,
                             type_text(tensor.dtype_before, tensor.dtype_after), shape_text(tensor.shape_before),
                             same_shape ? "" : " -> " + shape_text(tensor.shape_after)));
  } else {
    context.line(fmt::format("  {} {}{}  {:<8} {:>9} {:>10} {:>9} {:>9}{}", context.yellow("~"), name, gap,
                             type_text(tensor.dtype_before, tensor.dtype_after), percent(tensor.share()),
                             brief_number(tensor.norm_difference), relative(tensor), brief_number(tensor.largest),
                             tensor.not_finite > 0 ? fmt::format("  {} not finite", tensor.not_finite) : ""));
  }
}

void print_layers(Context& context, const std::vector<diff::LayerChange>& layers) {
  using Kind = diff::LayerChange::Kind;
  if (layers.empty()) return;
  context.line("\n" + context.bold("graph"));
  for (const diff::LayerChange& layer : layers) {
    const std::string name = printable(layer.name) + "  " + layer.op;
    if (layer.kind == Kind::kAdded) {
      context.line(context.green("  + " + name + "  " + layer.after));
    } else if (layer.kind == Kind::kRemoved) {
      context.line(context.red("  - " + name + "  " + layer.before));
    } else {
      context.line(context.yellow("  ~ ") + name);
      context.line(context.red("      - " + layer.before));
      context.line(context.green("      + " + layer.after));
    }
  }
}

void print_metrics(Context& context, const DiffOutcome& outcome) {
  const std::vector<diff::MetricChange>& metrics = outcome.model->metrics;
  if (metrics.empty()) return;
  std::size_t wide = 12;
  const auto name_of = [](const diff::MetricChange& metric) {
    return (metric.where.empty() ? "run" : metric.where) + "  " + metric.name;
  };
  for (const diff::MetricChange& metric : metrics) wide = std::max(wide, name_of(metric).size());
  wide = std::min<std::size_t>(wide, 42);
  context.line("\n" + context.bold("metrics") + std::string(wide - 5, ' ') +
               context.dim(fmt::format("  {:>10} {:>10} {:>10}", "before", "after", "change")));
  const auto shown = [](const std::optional<double>& value) { return value ? fmt::format("{:.5g}", *value) : "-"; };
  for (const diff::MetricChange& metric : metrics) {
    const bool both = metric.before && metric.after;
    const std::string change = both ? fmt::format("{:+.3g}", *metric.after - *metric.before) : "";
    const std::string line = fmt::format("  {:<{}}  {:>10} {:>10} {:>10}", cut_to(printable(name_of(metric)), wide),
                                         wide, shown(metric.before), shown(metric.after), change);
    context.line(line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

}  // namespace

void print_tensors(Context& context, const diff::TensorsDiff& diff, std::size_t limit) {
  std::size_t wide = 12;
  bool compared = false;
  const std::size_t shown = std::min(limit, diff.tensors.size());
  for (std::size_t i = 0; i < shown; ++i) {
    wide = std::max(wide, printable(diff.tensors[i].name).size());
    compared = compared || diff.tensors[i].compared;
  }
  wide = std::min<std::size_t>(wide, 28);
  if (compared) {
    context.line(context.dim(fmt::format("    {:<{}}  {:<8} {:>9} {:>10} {:>9} {:>9}", "tensor", wide, "type",
                                         "changed", "|change|", "relative", "largest")));
  }
  for (std::size_t i = 0; i < shown; ++i) print_tensor(context, diff.tensors[i], wide);
  if (shown < diff.tensors.size())
    context.line(fmt::format("    and {} more (--limit 0 shows all)", diff.tensors.size() - shown));
}

void print_values(Context& context, const char* title, const std::vector<diff::ValueChange>& changes) {
  if (changes.empty()) return;
  std::size_t wide = 8;
  for (const diff::ValueChange& change : changes) wide = std::max(wide, printable(change.path).size());
  wide = std::min<std::size_t>(wide, 30);
  context.line("\n" + context.bold(title));
  for (const diff::ValueChange& change : changes) {
    const std::string path = fmt::format("  {:<{}}  ", printable(change.path), wide);
    if (!change.before)
      context.line(path + context.green("+ " + cut_to(printable(*change.after), 44)));
    else if (!change.after)
      context.line(path + context.red("- " + cut_to(printable(*change.before), 44)));
    else
      context.line(path + cut_to(printable(*change.before), 22) + " -> " + cut_to(printable(*change.after), 22));
  }
}

void print_model(Context& context, const DiffOutcome& outcome) {
  if (!outcome.model_note.empty()) context.line(context.dim("\nmodel.json: " + outcome.model_note));
  if (!outcome.model) return;
  print_values(context, "parameters", outcome.model->parameters);
  print_values(context, "training", outcome.model->training);
  print_layers(context, outcome.model->layers);
  print_metrics(context, outcome);
}

}  // namespace mlx::cmd
