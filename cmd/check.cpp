// mlx check: a dataset against the rules of its dataset.toml.
#include <fmt/format.h>

#include <algorithm>

#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/data_subject.h"
#include "data/quality/check.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kMicrosPerDay = std::int64_t{86400} * 1'000'000;
constexpr std::size_t kShownItems = 5;

struct CheckOptions {
  std::string data, split, junit;
  bool infer = false, write = false;
};

void print_failures(const data::CheckResult& result, Context& context) {
  for (const data::Failure& each : result.failures) {
    const std::string where = each.file.empty() ? each.split : printable(each.file);
    context.line(fmt::format("{}: {}: {}", context.bold(where), context.red(each.rule), printable(each.text)));
    for (std::size_t i = 0; i < each.found.size() && i < kShownItems; ++i) {
      const data::FoundAt& found = each.found[i];
      context.line(fmt::format("  {} {}{}", each.place_word, found.number,
                               found.value.empty() ? "" : ": " + printable(found.value)));
    }
    if (each.count > kShownItems) context.line(context.dim(fmt::format("  and {} more", each.count - kShownItems)));
  }
}

void print_personal(const data::CheckResult& result, const data::Rules& rules, Context& context) {
  if (result.personal.empty() || rules.refuse_personal) return;
  std::string labels;
  std::vector<std::string> named;
  for (const data::PersonalFinding& each : result.personal) {
    const std::string seen = each.values == 0 ? "by its name" : counted(each.values, "value");
    context.line(fmt::format("{}: column '{}' may hold personal data: {} ({})", each.split, printable(each.column),
                             each.kind, seen));
    if (std::ranges::find(named, each.column) != named.end()) continue;
    named.push_back(each.column);
    labels += fmt::format("{}{}", labels.empty() ? "" : ", ", Json(printable(each.column)).dump());
  }
  context.line(context.dim(fmt::format("  if so, declare it in dataset.toml: [labels] personal = [{}]", labels)));
}

// The file of the worktree that --write adds rules to.
std::string declaration_path(const DataSubject& subject, Context& context) {
  const std::string folder =
      subject.version ? join_path(context.repository().root(), subject.version->artifact) : subject.path;
  if (is_folder(folder)) return join_path(folder, "dataset.toml");
  throw Error(ErrorKind::kUsage, fmt::format("--write: {} is no folder", folder),
              "rules stand in the dataset.toml of a dataset's folder; print them with --infer alone");
}

int infer(const CheckOptions& options, const DataSubject& subject, const data::Rules& rules, Context& context) {
  const data::Statistics statistics = statistics_of(subject, rules.target, false, context);
  const std::string text = data::inferred_rules(statistics, rules.personal.empty());
  std::string path;
  if (options.write) {
    path = declaration_path(subject, context);
    std::string before = path_exists(path) ? read_text(path) : "";
    if (data::parse_rules(before).declared) {
      throw Error(ErrorKind::kConflict, fmt::format("{} has [check] already", path),
                  "`mlx check --infer` without --write prints the rules, to take from");
    }
    if (!before.empty() && !before.ends_with('\n')) before += '\n';
    (void)data::parse_rules(before + text);
    if (!context.dry_run()) write_file_atomically(path, before + (before.empty() ? "" : "\n") + text);
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.check/1"}, {"data", subject.name}, {"inferred", text}, {"path", path}});
  } else if (path.empty()) {
    context.out(text);
  } else {
    context.line(fmt::format("{}: {}", context.dry_run() ? "would add rules to" : "rules added to", path));
  }
  return 0;
}

int run_check(const CheckOptions& options, Context& context) {
  if (options.write && !options.infer) throw Error(ErrorKind::kUsage, "--write: only with --infer", "add --infer");
  const DataSubject subject = find_data(options.data, context);
  const data::Rules rules = data::rules_of(*subject.store, subject.manifest);
  if (options.infer) return infer(options, subject, rules, context);

  std::optional<data::Statistics> before;
  std::string before_name;
  if (rules.drift) {
    if (const std::optional<DataSubject> earlier = version_before(subject, context)) {
      before = statistics_of(*earlier, rules.target, false, context);
      before_name = earlier->name;
      if (!options.split.empty())
        std::erase_if(before->splits, [&](const auto& each) { return each.first != options.split; });
    } else {
      context.progress().warn("drift is not checked: there is no version of the dataset before this");
    }
  }
  const data::CheckResult result =
      data::check_dataset(*subject.store, subject.manifest, options.split, rules, before ? &*before : nullptr,
                          unix_micros() / kMicrosPerDay, context.progress());
  if (options.split.empty()) keep_statistics(subject, rules.target, result.statistics, context);
  if (!options.junit.empty())
    write_file_atomically(join_path(context.folder(), options.junit), data::junit(result, subject.name));
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.check/1"}, {"data", subject.name}, {"digest", subject.manifest.text()}};
    json["before"] = before_name.empty() ? Json() : Json(before_name);
    json.update(to_json(result));
    context.json(json);
  }
  print_failures(result, context);
  print_personal(result, rules, context);
  std::uint64_t items = 0;
  for (const auto& [name, split] : result.statistics.splits) items += split.items;
  const std::string what = fmt::format("{}, {} in {}", counted(result.rules.size(), "rule"), counted(items, "item"),
                                       counted(result.statistics.splits.size(), "split"));
  if (!result.failures.empty()) {
    context.line(
        fmt::format("{}: {} ({})", subject.name, context.red(counted(result.failures.size(), "failure")), what));
    return 1;
  }
  context.line(fmt::format("{}: {} ({})", subject.name, context.green("passed"), what));
  if (!rules.declared) context.say("dataset.toml has no rules: `mlx check --infer` makes some from the data");
  return 0;
}

}  // namespace

Command add_check() {
  auto options = std::make_shared<CheckOptions>();
  Command command;
  command.name = "check";
  command.summary = "Check a dataset against the rules in its dataset.toml";
  command.group = "data";
  command.options = {
      argument("DATA", options->data, "A dataset, or a file or folder (a path that begins with . or / always is one)",
               Complete::kReference),
      option("--split", "NAME", options->split, "Check only this split (default: all)"),
      option("--junit", "FILE", options->junit, "Also write the result as JUnit XML", Complete::kFile),
      flag("--infer", options->infer, "Print rules that the data keeps, instead of checking it"),
      flag("--write", options->write, "With --infer: add the rules to the folder's dataset.toml")};
  command.examples = {"mlx check data/houses", "mlx check data/houses@v2 --json", "mlx check ./new.csv",
                      "mlx check --infer --write data/houses", "mlx check data/houses --junit check.xml"};
  command.dry_run = true;
  command.run = [options](Context& context) { return run_check(*options, context); };
  return command;
}

}  // namespace mlx::cmd
