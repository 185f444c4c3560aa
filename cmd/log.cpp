// mlx log: versions, newest first; with --runs, what was run.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/moment.h"
#include "cmd/describe.h"
#include "cmd/run_filter.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

struct LogOptions {
  std::string artifact;
  std::string since, until;
  bool runs = false, oneline = false;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  RunFilter filter;
};

bool is_timing(std::string_view metric) {
  return metric.ends_with("seconds") || metric.ends_with("per_second") || metric.ends_with("hours");
}

// The metrics that --where and --sort name, then the first few of the others: "accuracy 0.931  loss 0.19". How long
// a run took has a column of its own.
std::string metrics_text(const RunFilter& filter, registry::Repository& repository, const registry::Run& run) {
  std::string text;
  for (const auto& [name, value] : looked_at(filter, repository, run)) text += fmt::format("  {} {}", name, value);
  if (run.summary.empty()) return text;
  const Json summary = parse_json(run.summary, "run:" + run.id);
  int left = 4;
  for (const auto& [name, value] : summary.items()) {
    const bool shown = text.find(fmt::format("  {} ", name)) != std::string::npos;
    if (!value.is_number_float() || shown || is_timing(name)) continue;
    if (left-- == 0) break;
    text += fmt::format("  {} {}", name, brief_number(value.get<double>()));
  }
  return text;
}

std::string status_text(Context& context, registry::RunStatus status) {
  if (status == registry::RunStatus::kDone) return context.green(name_of(status));
  return status == registry::RunStatus::kRunning ? context.yellow(name_of(status)) : context.red(name_of(status));
}

std::vector<std::string> status_names() {
  std::vector<std::string> names;
  names.reserve(std::size(registry::kRunStatuses));
  for (const registry::RunStatus status : registry::kRunStatuses) names.emplace_back(name_of(status));
  return names;
}

// What is shown beside versions, read once for all of them.
struct Beside {
  registry::Names names;
  std::vector<registry::AliasMove> moves;
};

// The move that put an alias on the version.
const registry::AliasMove* last_move(const Beside& beside, const registry::Version& version, const std::string& alias) {
  const registry::AliasMove* last = nullptr;
  for (const registry::AliasMove& move : beside.moves) {
    if (move.artifact == version.artifact && move.alias == alias && move.digest == version.digest) last = &move;
  }
  return last;
}

// The reasons of aliases, if somebody gave them.
void print_reasons(Context& context, const registry::Version& version, const Beside& beside) {
  for (const std::string& alias : version.aliases) {
    const registry::AliasMove* move = last_move(beside, version, alias);
    if (!move || move->message.empty()) continue;
    context.line(fmt::format("Alias:  {} since {}, by {}: {}", alias, local_time(move->time),
                             author_name(beside.names, move->actor, move->operation),
                             move->message.substr(0, move->message.find('\n'))));
  }
}

void print_version(Context& context, const registry::Version& version, const std::optional<registry::Erasure>& erasure,
                   const Beside& beside) {
  context.line(context.yellow("version " + version.digest.hex().substr(0, 16)) + "  " + context.bold(version.name()) +
               names_text(context, version));
  context.line(fmt::format("By:     {}", author_text(beside.names, version.actor, version.operation)));
  context.line(fmt::format("Date:   {}", local_time(version.time)));
  context.line(fmt::format("Holds:  {}", files_text(version.files, version.bytes)));
  if (!version.run.empty()) context.line("Run:    run:" + version.run);
  print_reasons(context, version, beside);
  if (erasure) context.line(context.red("Erased: " + erasure_text(*erasure)));
  if (!version.message.empty()) context.line("\n    " + version.message);
  context.line("");
}

void print_line(Context& context, const registry::Version& version, const std::optional<registry::Erasure>& erasure) {
  const std::string first = version.message.substr(0, version.message.find('\n'));
  context.line(fmt::format("{}  {}{}{}  {}", context.yellow(version.digest.brief()), context.bold(version.name()),
                           names_text(context, version), erasure ? context.red(" (erased)") : "", first));
}

// Drops versions or runs that are not between --since and --until.
template <typename T>
void keep_between(std::vector<T>& list, const LogOptions& options, std::int64_t T::*time) {
  const std::int64_t since = options.since.empty() ? 0 : parse_moment(options.since, "--since");
  const std::int64_t until = options.until.empty() ? INT64_MAX : parse_moment(options.until, "--until");
  std::erase_if(list, [&](const T& one) { return one.*time < since || one.*time > until; });
}

template <typename T>
void cut(std::vector<T>& list, std::int64_t limit) {
  if (list.size() > static_cast<std::size_t>(limit)) list.resize(static_cast<std::size_t>(limit));
}

// Those that made, were given, or were to make versions of the artifact that the reference names.
void keep_of_artifact(const std::string& reference, registry::Repository& repository,
                      std::vector<registry::Run>& runs) {
  if (reference.empty()) return;
  const std::optional<registry::Version> named = registry::try_resolve(repository, reference);
  const std::string artifact = named ? named->artifact : reference;
  std::set<Digest> digests;
  for (const registry::Version& version : registry::versions(repository, artifact)) digests.insert(version.digest);
  std::erase_if(runs, [&](const registry::Run& run) {
    for (const auto& [role, digest] : run.inputs) {
      if (digests.contains(digest)) return false;
    }
    for (const registry::RunOutput& output : run.outputs) {
      if (digests.contains(output.version)) return false;
    }
    const Json params = run.params.empty() ? Json() : parse_json(run.params, "run:" + run.id);
    const auto model = params.find("model");
    return model == params.end() || !model->is_object() || !model->contains("name") || (*model)["name"] != artifact;
  });
  if (runs.empty() && !named) (void)registry::resolve(repository, reference);  // says that there is no such thing
}

void print_run(Context& context, const registry::Run& run, const RunFilter& filter) {
  const std::int64_t end = run.ended ? run.ended : unix_micros();
  const bool known = run.status != registry::RunStatus::kKilled;  // when it was is not
  std::string made;
  for (const registry::Version& version : registry::made_by(context.repository(), run))
    made += fmt::format("{}{}", made.empty() ? "  -> " : ", ", context.bold(version.name()));
  context.line(fmt::format("{}  {}  {}  {:>9}  {}{}{}", context.yellow("run:" + run.id),
                           status_text(context, run.status), local_time(run.started),
                           known ? duration_text(end - run.started) : "-", context.bold(run.title), made,
                           metrics_text(filter, context.repository(), run)));
}

int log_runs(const LogOptions& options, Context& context) {
  std::vector<registry::Run> runs = registry::runs(context.repository());
  keep_of_artifact(options.artifact, context.repository(), runs);
  const bool any = !runs.empty();
  keep_between(runs, options, &registry::Run::started);
  std::ranges::reverse(runs);
  apply(options.filter, context.repository(), runs);
  cut(runs, options.limit);
  const registry::Names names(context.repository());
  Json list = Json::array();
  for (const registry::Run& run : runs) {
    print_run(context, run, options.filter);
    list.push_back(run_json(context.repository(), run));
    list.back()["author"] = author_json(names, run.actor, run.operation);
  }
  if (!any) context.line("no runs yet");
  if (context.wants_json()) context.json({{"schema", "mlx.log/1"}, {"runs", list}});
  return 0;
}

// All, those of an artifact, or, as git does it, one and those before it.
std::vector<registry::Version> wanted_versions(const std::string& reference, registry::Repository& repository) {
  if (reference.empty()) return registry::versions(repository);
  const registry::Version last = registry::resolve(repository, reference);
  std::vector<registry::Version> versions = registry::versions(repository, last.artifact);
  if (!registry::parse_reference(reference).selector.empty())
    std::erase_if(versions, [&](const registry::Version& version) { return version.number > last.number; });
  return versions;
}

int run_log(const LogOptions& options, Context& context) {
  if (options.limit < 0)
    throw Error(ErrorKind::kUsage, fmt::format("log: -n {}: expected a positive number, or 0", options.limit));
  context.start_pager();
  if (options.runs || !options.filter.empty()) return log_runs(options, context);
  registry::Repository& repository = context.repository();
  std::vector<registry::Version> versions = wanted_versions(options.artifact, repository);
  std::stable_sort(versions.begin(), versions.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  const bool any = !versions.empty();
  keep_between(versions, options, &registry::Version::time);
  std::ranges::reverse(versions);
  cut(versions, options.limit);
  const Beside beside{registry::Names(repository), registry::alias_moves(repository)};
  Json list = Json::array();
  for (const registry::Version& version : versions) {
    const std::optional<registry::Erasure> erasure = registry::erasure_of(repository, version.digest);
    options.oneline ? print_line(context, version, erasure) : print_version(context, version, erasure, beside);
    list.push_back(version_json(version));
    list.back()["author"] = author_json(beside.names, version.actor, version.operation);
    list.back()["erased"] = erasure_json(erasure);
  }
  if (!any) context.line("no versions yet: `mlx add FOLDER`, then `mlx commit -m MESSAGE`");
  if (context.wants_json()) context.json({{"schema", "mlx.log/1"}, {"versions", list}});
  return 0;
}

}  // namespace

Command add_log() {
  auto options = std::make_shared<LogOptions>();
  Command command;
  command.name = "log";
  command.summary = "Show versions, newest first, or runs";
  command.group = "versions";
  const Option where{.names = "--where",
                     .value = "CONDITION",
                     .help = "Only runs that meet it, such as 'valid_accuracy>=0.9' or 'train/loss<0.3'",
                     .many = true,
                     .texts = &options->filter.where};
  command.options = {
      optional_argument("ARTIFACT", options->artifact,
                        "Only versions of this dataset or model; with @VERSION that one and those before it",
                        Complete::kReference),
      flag("--runs", options->runs, "List runs instead: state, time, duration, metrics"),
      choice("--status", "STATUS", status_names(), options->filter.status,
             "Only runs in this state (this and the next three imply --runs)"),
      where,
      option("--sort", "NAME", options->filter.sort, "Sort runs by this metric or parameter, smallest first"),
      flag("--reverse", options->filter.reverse, "Largest first; without --sort oldest first"),
      flag("--oneline", options->oneline, "One line a version"),
      option("--since", "TIME", options->since, "Not before this: 2026-01-31, 2026-01-31 12:00, or 3 days"),
      option("--until", "TIME", options->until, "Not after this"),
      integer("-n,--max-count", "N", options->limit, "At most this many"),
  };
  command.examples = {"mlx log", "mlx log clf -n 3", "mlx log --oneline --since \"7 days\"", "mlx log --runs",
                      "mlx log --runs --where 'valid_accuracy>=0.9' --sort seconds"};
  command.run = [options](Context& context) { return run_log(*options, context); };
  return command;
}

}  // namespace mlx::cmd
