// mlx undo: takes the last operation of this clone back, or brings one back.
#include "registry/record/undo.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cmd/cli/cli.h"
#include "registry/keys/trust.h"
#include "registry/operations/operation_text.h"
#include "registry/record/judge.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

struct UndoOptions {
  std::string operation;
  bool redo = false;
};

int run_undo(const UndoOptions& options, Context& context) {
  if (options.redo && !options.operation.empty())
    throw Error(ErrorKind::kUsage, "undo: --redo and OPERATION exclude each other",
                "name the undo itself to take it back: mlx undo OPERATION");
  registry::Repository& repository = context.repository();
  registry::require_may_record(repository, "operation.undo");
  Digest made;
  const registry::Undoing undoing = context.dry_run()
                                        ? registry::plan_undo(repository, options.operation, options.redo)
                                        : registry::undo(repository, options.operation, options.redo, &made);
  const std::string text = registry::operation_text(repository.kinds(), undoing.subject);
  const char* status = undoing.unchanged ? "unchanged" : undoing.brings_back ? "redone" : "undone";
  const std::string shown =
      undoing.unchanged ? "unchanged" : (context.dry_run() ? "would be " : "") + std::string(status);
  context.line(fmt::format("{}  {}  {}", context.yellow(undoing.subject.id.brief()), text, shown));
  if (undoing.shared && !undoing.unchanged)
    context.say("it may have been pushed: after the next `mlx push` it is taken back for others too");
  if (context.wants_json()) {
    context.json({{"schema", "mlx.undo/1"},
                  {"operation", undoing.subject.id.text()},
                  {"kind", undoing.subject.kind},
                  {"text", text},
                  {"undo", made == Digest() ? Json() : Json(made.text())},
                  {"shared", undoing.shared},
                  {"status", status},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

}  // namespace

Command add_undo() {
  auto options = std::make_shared<UndoOptions>();
  Command command;
  command.name = "undo";
  command.summary = "Take back the last operation: a commit, a tag, a promotion";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      optional_argument("OPERATION", options->operation,
                        "An earlier operation, by at least 8 hex digits of its id; the last one by default",
                        Complete::kOperation),
      flag("--redo", options->redo, "Restore what the last undo took back"),
  };
  command.examples = {"mlx undo", "mlx undo -n", "mlx undo 3f2a9b1c", "mlx undo --redo"};
  command.run = [options](Context& context) { return run_undo(*options, context); };
  return command;
}

}  // namespace mlx::cmd
