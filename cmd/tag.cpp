// mlx tag: gives a version a name that never moves.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json.h"
#include "cmd/describe.h"

namespace mlx::cmd {
namespace {

struct Options {
  std::string tag, reference;
};

int run(const Options& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, options.reference);
  const bool there = std::find(version.tags.begin(), version.tags.end(), options.tag) != version.tags.end();
  if (!there && !context.dry_run()) registry::create_tag(repository, options.tag, version);
  const char* status = there ? "unchanged" : context.dry_run() ? "would be tagged" : "tagged";
  context.line(fmt::format("{}  {}  {}", context.bold(version.name()), options.tag, status));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.tag/1"},
                  {"tag", options.tag},
                  {"version", version.name()},
                  {"digest", version.digest.text()},
                  {"status", there ? "unchanged" : "tagged"},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

}  // namespace

Command add_tag() {
  auto options = std::make_shared<Options>();
  Command command;
  command.name = "tag";
  command.summary = "Give a version a name that never moves";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      argument("NAME", options->tag, "The tag"),
      argument("REF", options->reference, "The version", Complete::kReference),
  };
  command.examples = {"mlx tag paper-2026 clf@v3"};
  command.run = [options](Context& context) { return run(*options, context); };
  return command;
}

}  // namespace mlx::cmd
