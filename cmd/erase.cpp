// mlx erase: makes a domain's content unreadable for good, here and wherever the operation gets to.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/cli.h"
#include "registry/keys/trust.h"
#include "registry/record/judge.h"
#include "registry/versions/domains.h"

namespace mlx::cmd {
namespace {

struct EraseOptions {
  std::string what;
  bool yes = false;
};

Json versions_json(const std::vector<registry::Version>& versions) {
  Json list = Json::array();
  for (const registry::Version& version : versions) {
    list.push_back({{"name", version.name()},
                    {"kind", registry::kind_name(version.kind)},
                    {"digest", version.digest.text()},
                    {"bytes", version.bytes}});
  }
  return list;
}

void print(const char* title, const std::vector<registry::Version>& versions, Context& context) {
  if (versions.empty()) return;
  context.line(title);
  for (const registry::Version& version : versions)
    context.line(fmt::format("  {}  {}  {}", context.bold(version.name()), registry::kind_name(version.kind),
                             context.dim(version.digest.brief())));
}

int run_erase(const EraseOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::ErasePlan plan = registry::plan_erasure(repository, options.what);
  registry::require_may_record(repository, "key.erase");
  if (!options.yes && !context.dry_run()) {
    throw Error(ErrorKind::kRefused,
                fmt::format("erasing the domain '{}' makes {} unreadable for good, in every clone", plan.domain,
                            counted(plan.versions.size(), "version")),
                "`mlx erase -n` lists them; --yes erases them");
  }
  const bool gone = !plan.keys && plan.versions.empty();
  if (!context.dry_run() && !gone) registry::erase(repository, plan);
  const char* status = gone ? "unchanged" : context.dry_run() ? "would be erased" : "erased";
  context.line(fmt::format("domain {}  {}", context.bold(plan.domain), status));
  print(context.dry_run() ? "can then no longer be read" : "can no longer be read", plan.versions, context);
  print("made from these, and still there", plan.made, context);
  if (!context.dry_run()) {
    context.say(
        "`mlx push` carries it to the remote, `mlx pull` from there to other clones; names stay in the history");
    context.say("files in worktrees, and what a clone without --encrypt keeps until `mlx gc`, are not touched");
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.erase/1"},
                  {"domain", plan.domain},
                  {"status", status},
                  {"dry_run", context.dry_run()},
                  {"versions", versions_json(plan.versions)},
                  {"made", versions_json(plan.made)}});
  }
  return 0;
}

}  // namespace

Command add_erase() {
  auto options = std::make_shared<EraseOptions>();
  Command command;
  command.name = "erase";
  command.summary = "Shred the key of a domain, so that nobody can read its content again";
  command.group = "govern";
  command.dry_run = true;
  command.options = {
      argument("NAME", options->what, "A domain, or an artifact that is alone in its domain", Complete::kReference),
      flag("-y,--yes", options->yes, "Erase; this cannot be undone"),
  };
  command.examples = {"mlx erase -n people", "mlx erase --yes data/people"};
  command.run = [options](Context& context) { return run_erase(*options, context); };
  return command;
}

}  // namespace mlx::cmd
