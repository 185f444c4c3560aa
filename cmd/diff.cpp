// mlx diff: what changed between two versions, or from a version to the worktree: files, rows and cells of tables,
// images by folder, tensors, parameters, graphs and metrics of models; or between two runs.
#include "cmd/diff.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cmd/describe.h"

namespace mlx::cmd {
namespace {

std::vector<std::string> split_columns(const std::vector<std::string>& lists) {
  std::vector<std::string> columns;
  for (const std::string& list : lists) {
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t end = std::min(list.find(',', at), list.size());
      if (end == at) throw Error(ErrorKind::kUsage, fmt::format("diff: --key {}: a column has no name", list), "");
      columns.push_back(list.substr(at, end - at));
      at = end + 1;
    }
  }
  return columns;
}

DiffOutcome compare(DiffPair pair, const DiffOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  diff::ContentOptions content;
  content.contents = !options.files_only();
  content.rows.key = options.key;
  content.rows.limit = options.limit == 0 ? 1'000'000 : static_cast<std::size_t>(options.limit);
  if (pair.models) content.names_only = {"model.json"};
  DiffOutcome outcome;
  outcome.comparison =
      diff::compare_sides(pair.before.side, pair.after.side, content, repository.pool(), context.progress());
  if (pair.models && content.contents && outcome.different()) {
    try {
      outcome.model = diff::diff_models(repository, *pair.before.version, *pair.after.version);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      outcome.model_note = error.message;
    }
  }
  outcome.pair = std::move(pair);
  return outcome;
}

int run_diff(const DiffOptions& given, Context& context) {
  DiffOptions options = given;
  options.key = split_columns(given.key);
  if (options.limit < 0) throw Error(ErrorKind::kUsage, "diff: --limit must be at least 0", "0 shows everything");
  context.start_pager();
  const std::vector<std::string>& targets = options.targets;
  if (targets.size() == 2 && targets[0].starts_with("run:") && targets[1].starts_with("run:"))
    return diff_runs(targets[0], targets[1], context) && options.exit_code ? 1 : 0;
  Json list = Json::array();
  bool different = false, printed = false;
  for (DiffPair& pair : diff_pairs(targets, context)) {
    const DiffOutcome outcome = compare(std::move(pair), options, context);
    different = different || outcome.different();
    list.push_back(diff_json(outcome));
    if (!outcome.different()) continue;
    if (std::exchange(printed, true) && !options.name_only && !options.name_status) context.line("");
    print_diff(context, outcome, options);
  }
  if (context.wants_json()) context.json({{"schema", "mlx.diff/1"}, {"different", different}, {"comparisons", list}});
  return different && options.exit_code ? 1 : 0;
}

}  // namespace

Command add_diff() {
  auto options = std::make_shared<DiffOptions>();
  Command command;
  command.name = "diff";
  command.summary = "Show what changed in data and models, down to rows, cells and tensors";
  command.group = "versions";
  command.options = {
      arguments("REF", options->targets,
                "One or two versions, each with an optional :path; one is compared with the worktree",
                Complete::kReference, false),
      Option{.names = "-k,--key",
             .value = "COLUMN[,COLUMN]",
             .help = "Columns that identify a row of a table",
             .many = true,
             .texts = &options->key},
      flag("--stat", options->stat, "Show which files differ and their sizes, not what is inside"),
      flag("--name-only", options->name_only, "Show the paths of files that differ, one a line"),
      flag("--name-status", options->name_status, "The same with a letter: A added, D deleted, M modified, R moved"),
      integer("--limit", "N", options->limit,
              "Show at most N files, rows of each kind and tensors; 0 for all (default: 10)"),
      flag("--exit-code", options->exit_code, "Exit with 1 if something differs"),
  };
  command.examples = {"mlx diff",
                      "mlx diff data/fashion@v1 data/fashion",
                      "mlx diff data/shop@v1..v2 --key id",
                      "mlx diff clf@production clf",
                      "mlx diff data/shop@v1:prices.csv data/shop@v2:prices.csv --json",
                      "mlx diff run:3f2a run:9c01"};
  command.run = [options](Context& context) { return run_diff(*options, context); };
  return command;
}

}  // namespace mlx::cmd
