// mlx monitor: whether data and a model's answers drift from what the model was trained on.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/asked_model.h"
#include "cmd/asked_rows.h"
#include "cmd/backend.h"
#include "cmd/data_subject.h"
#include "cmd/model_reference.h"
#include "infer/examples.h"
#include "monitor/drift.h"
#include "monitor/observe.h"
#include "report/drift_page.h"

namespace mlx::cmd {
namespace {

struct MonitorOptions {
  std::string model, data, split, against, against_split, out, device;
  std::int64_t window = 0, persist = 2, least_items = 100;
  double level = 0.01, least_psi = 0.1;
  bool again = false;
};

monitor::DriftOptions checked(const MonitorOptions& options) {
  if (!(options.level > 0 && options.level < 1))
    fail(ErrorKind::kUsage, "--level {}: expected a number between 0 and 1", options.level);
  if (!(options.least_psi >= 0) || !std::isfinite(options.least_psi))
    fail(ErrorKind::kUsage, "--min-psi {}: expected a number from 0 on", options.least_psi);
  if (options.least_items < 1) fail(ErrorKind::kUsage, "--min-items {}: expected at least 1", options.least_items);
  if (options.persist < 1) fail(ErrorKind::kUsage, "--persist {}: expected at least 1", options.persist);
  if (options.window < 0) fail(ErrorKind::kUsage, "--window {}: expected at least 1", options.window);
  if (options.window > 0 && options.window < options.least_items)
    throw Error(ErrorKind::kUsage,
                fmt::format("--window {}: smaller than --min-items {}, it would never be judged", options.window,
                            options.least_items),
                "give a larger window, or a smaller --min-items");
  return {options.level, options.least_psi, static_cast<std::uint64_t>(options.least_items),
          static_cast<std::uint64_t>(options.persist)};
}

// The split that is meant: the one asked for, the only one, or `test`.
std::string split_of(const DataSubject& subject, const std::string& asked, const data::Reading& reading) {
  if (!asked.empty()) return asked;
  const std::vector<std::string> names = data::splits(*subject.store, subject.manifest, reading);
  return names.size() == 1 ? names[0] : "test";
}

// Shows what DATA on the command line names to `to`; returns what it is called.
std::string observe_asked(const infer::Model& model, const std::string& word, const std::string& split,
                          monitor::Items& to, Context& context) {
  const std::string path = join_path(context.folder(), word);
  const bool table =
      model.signature().takes == infer::Takes::kRows && (word == "-" || (path_exists(path) && !is_folder(path)));
  if (table) {
    if (!split.empty()) fail(ErrorKind::kUsage, "{} is a table: it has no splits", printable(word));
    const AskedRows asked = asked_rows(word, split, lenient_reading(model), context);
    monitor::observe_rows(model, asked.rows, {}, to, context.progress());
    return asked.name;
  }
  if (word == "-") fail(ErrorKind::kUsage, "-, standard input, is for models of rows");
  const DataSubject subject = find_data(word, context);
  return observe_split(model, subject, split_of(subject, split, infer::reading_of(model.about())), {}, to, context);
}

monitor::Reference reference_of(const MonitorOptions& options, const infer::Model& model,
                                const registry::Version& version, Context& context) {
  if (options.against.empty()) return training_reference(model, version, options.again, context);
  monitor::Recorder recorder(monitor::columns_of(model));
  monitor::Reference out;
  out.data = observe_asked(model, options.against, options.against_split, recorder, context);
  out.columns = recorder.finish();
  return out;
}

void print_reference(const monitor::Reference& reference, const std::string& model, Context& context) {
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.monitor/1"}, {"model", model}, {"reference", monitor::to_json(reference)}};
    context.json(json);
  }
  context.line(fmt::format("{} is compared with {}{}", context.bold(model), printable(reference.data),
                           reference.predictions.empty() ? "" : ", answers on " + reference.predictions));
  for (const monitor::ColumnReference& each : reference.columns) {
    const std::uint64_t all = each.seen() + each.missing;
    std::string text = fmt::format("  {}: {}", printable(each.column.name), each.column.number ? "number" : "category");
    if (each.column.number && each.points.size() > 1)
      text += fmt::format(", {} to {}", brief_number(each.points[1]), brief_number(each.points.back()));
    if (!each.column.number) text += fmt::format(", {}", counted(each.values.size(), "value"));
    context.line(text + fmt::format(", {}{}", counted(all, "item"),
                                    each.missing > 0 ? fmt::format(", {} missing", grouped(each.missing)) : ""));
  }
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + printable(name);
  return out;
}

void print_columns(const monitor::Drift& drift, Context& context) {
  std::size_t width = 6;
  for (const monitor::ColumnDrift& each : drift.columns) width = std::max(width, printable(each.column.name).size());
  context.line(context.dim(fmt::format("  {:<{}}  {:<4} {:>9} {:>7} {:>8}  {:>17}  median", "column", width, "test",
                                       "statistic", "PSI", "q", "missing %")));
  for (const monitor::ColumnDrift& each : drift.columns) {
    std::string text =
        fmt::format("  {:<{}}  {:<4} {:>9.4g} {:>7.3f} {:>8.2g}  {:>17}", printable(each.column.name), width, each.test,
                    each.statistic, each.psi, each.q,
                    fmt::format("{:.1f} -> {:.1f}", 100 * each.missing_before, 100 * each.missing_after));
    if (each.column.number)
      text += fmt::format("  {} -> {}", brief_number(each.median_before), brief_number(each.median_after));
    if (!each.unknown.empty()) text += "  new: " + joined(each.unknown);
    context.line(each.drift ? context.red(text) : text);
  }
}

Json windows_json(const std::vector<monitor::Stream::Judged>& windows) {
  Json out = Json::array();
  for (const monitor::Stream::Judged& each : windows)
    out.push_back(
        {{"first", each.first}, {"items", each.items}, {"differ", each.differ}, {"established", each.established}});
  return out;
}

void print_windows(const std::vector<monitor::Stream::Judged>& windows, Context& context) {
  for (const monitor::Stream::Judged& each : windows) {
    if (each.differ.empty()) continue;
    const std::string text = fmt::format("  items {} to {} differ: {}", grouped(each.first),
                                         grouped(each.first + each.items - 1), joined(each.differ));
    context.line(each.established.empty() ? text : context.red(text + "  drift: " + joined(each.established)));
  }
}

void write_page(const MonitorOptions& options, const report::DriftFacts& facts, Context& context) {
  const std::string path = join_path(context.folder(), options.out);
  if (is_folder(path))
    throw Error(ErrorKind::kUsage, "--out " + options.out + ": is a folder", "name a file, such as drift.html");
  write_file_atomically(path, report::drift_page(facts));
  context.say("the page is " + options.out);
}

int run_monitor(const MonitorOptions& options, Context& context) {
  const monitor::DriftOptions limits = checked(options);
  if (options.data.empty() && !(options.split.empty() && options.out.empty() && options.window == 0))
    fail(ErrorKind::kUsage, "--split, --out and --window are about --data, which is not given");
  if (options.against.empty() && !options.against_split.empty())
    fail(ErrorKind::kUsage, "--against-split is for --against");
  if (!options.against.empty() && options.again)
    fail(ErrorKind::kUsage, "--again is for what is kept with the model; with --against nothing is");
  if (options.data == "-" && options.against == "-")
    fail(ErrorKind::kUsage, "--data and --against are both standard input");
  AskedModel asked = open_model(options.model, context);
  const infer::Model model(std::move(asked.model), chosen_backend(context, options.device), context.pool());
  const monitor::Reference reference = reference_of(options, model, asked.version, context);
  const std::string name = asked.version.name();
  if (options.data.empty()) {
    print_reference(reference, name, context);
    return 0;
  }
  monitor::Stream stream(reference.columns, static_cast<std::uint64_t>(options.window), limits);
  report::DriftFacts facts{name, asked.version.digest.text(), {}, reference.data, reference.predictions, {}, {}, false};
  facts.data = observe_asked(model, options.data, options.split, stream, context);
  stream.finish();
  facts.drift = stream.whole(), facts.windows = stream.windows(), facts.found = stream.drift();
  if (!options.out.empty()) write_page(options, facts, context);
  const bool judged = options.window > 0 ? !facts.windows.empty() : facts.drift.items >= limits.least_items;
  if (!judged)
    context.progress().warn(fmt::format("{} are too few to tell drift: at least {} are judged (--min-items)",
                                        counted(facts.drift.items, "item"), limits.least_items));
  if (context.wants_json()) {
    Json json = to_json(facts.drift);
    json["schema"] = "mlx.monitor/1", json["model"] = name, json["digest"] = facts.digest, json["data"] = facts.data;
    json["against"] = {{"data", reference.data}, {"predictions", reference.predictions}};
    json["judged"] = judged, json["drift"] = facts.found;
    if (options.window > 0) json["windows"] = windows_json(facts.windows);
    context.json(json);
  }
  context.line(fmt::format("{} on {}, {}, against {}", context.bold(name), printable(facts.data),
                           counted(facts.drift.items, "item"), printable(reference.data)));
  print_columns(facts.drift, context);
  print_windows(facts.windows, context);
  context.line(facts.found ? context.red("drift") : judged ? context.green("no drift") : "not judged");
  return facts.found ? static_cast<int>(ErrorKind::kNo) : 0;
}

}  // namespace

Command add_monitor() {
  auto options = std::make_shared<MonitorOptions>();
  Command command;
  command.name = "monitor";
  command.summary = "Tell whether data and a model's answers drift from what it was trained on";
  command.group = "work";
  command.options = {
      argument("MODEL", options->model,
               "The model's reference (clf, clf@v2, clf@production) or a folder with its files", Complete::kReference),
      option("-d,--data", "DATA", options->data,
             "What to look at: a dataset, or a file or folder; for models of rows also -, standard input. Without it "
             "the reference is made, kept and shown",
             Complete::kReference),
      option("-s,--split", "SPLIT", options->split, "The split of DATA (default: the only one, or test)"),
      option("--against", "DATA", options->against, "Compare with this data (default: what the model was trained on)",
             Complete::kReference),
      option("--against-split", "SPLIT", options->against_split, "Its split (default: the only one, or test)"),
      integer("--window", "N", options->window, "Also judge each N items by themselves, in order"),
      integer("--persist", "K", options->persist, "Of windows, K in turn must differ (default: 2)"),
      number("--level", "Q", options->level,
             "The share of false alarms among columns that are called drifted (default: 0.01)"),
      number("--min-psi", "PSI", options->least_psi, "Smaller changes are no drift, however sure (default: 0.1)"),
      integer("--min-items", "N", options->least_items, "Fewer items are not judged (default: 100)"),
      option("-o,--out", "FILE", options->out, "Also write one self-contained HTML page", Complete::kFile),
      device_option(options->device),
      flag("--again", options->again, "Make the model's reference again, even if it is kept")};
  command.examples = {"mlx monitor price --data offers.csv", "mlx monitor price",
                      "mlx monitor clf@production --data data/november --split test -o drift.html",
                      "mlx monitor price --data log.jsonl --window 500 --persist 3 --json",
                      "mlx monitor ./model --data new.csv --against old.csv"};
  command.run = [options](Context& context) { return run_monitor(*options, context); };
  return command;
}

}  // namespace mlx::cmd
