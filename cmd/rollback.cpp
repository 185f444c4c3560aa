// mlx rollback: moves an alias back to the version that it named before.
#include "registry/versions/rollback.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cmd/cli/cli.h"
#include "registry/keys/trust.h"
#include "registry/record/judge.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

struct RollbackOptions {
  std::string alias, to, message;
};

int run_rollback(const RollbackOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Reference asked = registry::parse_reference(options.alias);
  if (asked.selector.empty() || !asked.path.empty())
    throw Error(ErrorKind::kUsage, fmt::format("'{}': expected MODEL@ALIAS", options.alias),
                "for example mlx rollback clf@production");
  const registry::Rollback rollback = registry::plan_rollback(repository, asked.name, asked.selector, options.to);
  const bool there = rollback.from.digest == rollback.to.digest;
  if (!there) registry::require_may_record(repository, "alias.move");
  if (!there && !context.dry_run()) registry::roll_back(repository, asked.selector, rollback, options.message);
  const char* const way = rollback.to.number > rollback.from.number ? "" : " back";
  context.line(fmt::format("{}@{} -> {}  {}{}", asked.name, context.bold(asked.selector), rollback.to.name(),
                           there               ? "unchanged"
                           : context.dry_run() ? fmt::format("would be moved{}", way)
                                               : fmt::format("moved{}", way),
                           there ? "" : fmt::format(" (was v{})", rollback.from.number)));
  if (there && !options.message.empty()) context.say("the message is not kept, because nothing was moved");
  if (context.wants_json()) {
    context.json({{"schema", "mlx.rollback/1"},
                  {"alias", asked.selector},
                  {"version", rollback.to.name()},
                  {"digest", rollback.to.digest.text()},
                  {"before", rollback.from.name()},
                  {"message", options.message},
                  {"status", there ? "unchanged" : "moved"},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

}  // namespace

Command add_rollback() {
  auto options = std::make_shared<RollbackOptions>();
  Command command;
  command.name = "rollback";
  command.summary = "Move an alias back to the version that it named before";
  command.group = "release";
  command.dry_run = true;
  command.options = {
      argument("MODEL@ALIAS", options->alias, "The artifact and its alias, such as clf@production",
               Complete::kReference),
      option("--to", "VERSION", options->to,
             "A version that the alias once named, such as v2 (default: the one before)", Complete::kReference),
      option("-m,--message", "WHY", options->message, "The reason of the move"),
  };
  command.examples = {"mlx rollback clf@production", "mlx rollback clf@production --to v2 -m \"v3 and v4 are slow\"",
                      "mlx rollback -n clf@production"};
  command.run = [options](Context& context) { return run_rollback(*options, context); };
  return command;
}

}  // namespace mlx::cmd
