// mlx fsck: reads and verifies everything that is stored; with --rebuild, makes the database again from the operations.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "cmd/describe.h"
#include "registry/domains.h"
#include "registry/pointers.h"

namespace mlx::cmd {
namespace {

// Every version whose manifest is here must have all of its files; versions that were never fetched are no damage.
void check_versions(registry::Repository& repository, std::vector<std::string>& problems) {
  for (const registry::Version& version : registry::versions(repository)) {
    if (!repository.store().has(store::ObjectKind::kManifest, version.digest)) continue;
    if (registry::erasure_of(repository, version.digest)) continue;
    try {
      for (const store::Entry& entry : repository.store().entries(version.digest)) {
        if (!repository.store().has_blob(entry.content)) {
          problems.push_back(fmt::format("{}: the content of {} is missing", version.name(), printable(entry.path)));
        }
      }
    } catch (const Error& error) {
      problems.push_back(fmt::format("{}: {}", version.name(), error.message));
    }
  }
}

int run(bool rebuild, Context& context) {
  registry::Repository& repository = context.repository();
  if (rebuild) {
    registry::rebuild_database(repository.root(), context.disk(), context.pool(), context.progress(),
                               repository.store_options());
    context.line("meta.db rebuilt from the operations");
  }
  store::FsckReport report = repository.store().fsck(context.progress());
  const bool unlocked = report.locked < report.objects || report.objects == 0;
  if (unlocked) check_versions(repository, report.problems);
  for (const std::string& problem : report.problems) context.line(context.red("problem: ") + problem);
  context.line(fmt::format("{} packs, {} objects, {} verified: {}", report.packs, report.objects,
                           format_bytes(report.bytes),
                           report.problems.empty() ? context.green("all whole")
                                                   : context.red(fmt::format("{} problems", report.problems.size()))));
  if (report.locked > 0)
    context.line(
        fmt::format("{} of them are encrypted and there is no key for them: erased, or not unlocked", report.locked));
  if (!report.problems.empty())
    context.say("hint: `mlx fetch --all` from a remote that is whole, or check out a backup");
  if (context.wants_json()) {
    context.json({{"schema", "mlx.fsck/1"},
                  {"packs", report.packs},
                  {"objects", report.objects},
                  {"bytes", report.bytes},
                  {"locked", report.locked},
                  {"problems", report.problems},
                  {"rebuilt", rebuild}});
  }
  return report.problems.empty() ? 0 : static_cast<int>(ErrorKind::kCorrupt);
}

}  // namespace

Command add_fsck() {
  auto rebuild = std::make_shared<bool>(false);
  Command command;
  command.name = "fsck";
  command.summary = "Verify everything that is stored";
  command.group = "versions";
  command.options = {flag("--rebuild", *rebuild, "First make the database again from the operations")};
  command.examples = {"mlx fsck", "mlx fsck --rebuild"};
  command.run = [rebuild](Context& context) { return run(*rebuild, context); };
  return command;
}

}  // namespace mlx::cmd
