// mlx promote: moves an alias such as `production` to a version; every move is kept.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json.h"
#include "cmd/describe.h"
#include "registry/trust.h"

namespace mlx::cmd {
namespace {

struct PromoteOptions {
  std::string reference, alias;
};

int run_promote(const PromoteOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, options.reference);
  const std::optional<registry::Version> before =
      registry::try_resolve(repository, version.artifact + "@" + options.alias);
  const bool there = std::find(version.aliases.begin(), version.aliases.end(), options.alias) != version.aliases.end();
  if (!there) registry::require_may_record(repository, "alias.move");
  if (!there && !context.dry_run()) registry::move_alias(repository, options.alias, version);
  const std::string from = before && !there ? fmt::format(" (was v{})", before->number) : "";
  const char* status = there ? "unchanged" : context.dry_run() ? "would be moved" : "moved";
  context.line(
      fmt::format("{}@{} -> {}  {}{}", version.artifact, context.bold(options.alias), version.name(), status, from));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.promote/1"},
                  {"alias", options.alias},
                  {"version", version.name()},
                  {"digest", version.digest.text()},
                  {"before", before ? Json(before->name()) : Json()},
                  {"status", there ? "unchanged" : "moved"},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

}  // namespace

Command add_promote() {
  auto options = std::make_shared<PromoteOptions>();
  Command command;
  command.name = "promote";
  command.summary = "Move an alias such as production to a version";
  command.group = "release";
  command.dry_run = true;
  command.options = {
      argument("REF", options->reference, "The version", Complete::kReference),
      argument("ALIAS", options->alias, "The alias; made where it is new"),
  };
  command.examples = {"mlx promote clf@v2 production"};
  command.run = [options](Context& context) { return run_promote(*options, context); };
  return command;
}

}  // namespace mlx::cmd
