// mlx promote: moves an alias such as `production` to a version; every move is kept.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "base/json.h"
#include "cmd/describe.h"
#include "registry/keys/trust.h"
#include "registry/record/judge.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

struct PromoteOptions {
  std::string reference, alias, message;
};

// NAME@previous is what this alias named before, if anything; otherwise other aliases decide.
registry::Version wanted_version(const PromoteOptions& options, registry::Repository& repository) {
  const std::string& text = options.reference;
  if (!text.starts_with("run:") && registry::parse_reference(text).selector == "previous") {
    const std::string before = registry::parse_reference(text).name + "@" + options.alias + "~1";
    if (auto version = registry::try_resolve(repository, before)) return *version;
  }
  return registry::resolve(repository, text);
}

int run_promote(const PromoteOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = wanted_version(options, repository);
  // Several if it was moved on both sides; a move settles that.
  const std::vector<registry::Version> before = registry::named_by_alias(repository, version.artifact, options.alias);
  const bool there = before.size() == 1 && before.front().digest == version.digest;
  if (!there) registry::require_may_record(repository, "alias.move");
  if (!there && !context.dry_run()) registry::move_alias(repository, options.alias, version, options.message);
  std::string was;
  for (const registry::Version& one : before) was += fmt::format("{}v{}", was.empty() ? "" : " and ", one.number);
  const std::string from = before.empty() || there ? "" : fmt::format(" (was {})", was);
  const char* status = there ? "unchanged" : context.dry_run() ? "would be moved" : "moved";
  context.line(
      fmt::format("{}@{} -> {}  {}{}", version.artifact, context.bold(options.alias), version.name(), status, from));
  if (there && !options.message.empty()) context.say("the message is not kept, because nothing was moved");
  if (context.wants_json()) {
    Json settled = Json::array();
    for (const registry::Version& one : before) settled.push_back(one.name());
    context.json({{"schema", "mlx.promote/1"},
                  {"alias", options.alias},
                  {"version", version.name()},
                  {"digest", version.digest.text()},
                  {"before", before.size() == 1 ? Json(before.front().name()) : Json()},
                  {"settled", before.size() > 1 ? settled : Json::array()},
                  {"message", options.message},
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
      argument("REF", options->reference, "The version, or run:ID for the one that a run made", Complete::kReference),
      argument("ALIAS", options->alias, "The alias; made if it is new"),
      option("-m,--message", "WHY", options->message, "The reason of the move"),
  };
  command.examples = {"mlx promote clf@v2 production", "mlx promote run:3f2a staging -m \"best of the sweep\"",
                      "mlx promote clf@previous production -m \"v3 is slow\""};
  command.run = [options](Context& context) { return run_promote(*options, context); };
  return command;
}

}  // namespace mlx::cmd
