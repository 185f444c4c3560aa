// mlx init: makes a repository of a folder.
#include <fmt/format.h>

#include <memory>

#include "base/git.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/cli.h"
#include "registry/git_setup.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

// The merge driver and the hook, where there is a git repository.
void tell_git(const std::string& folder, Context& context) {
  for (const std::string& note : registry::set_up_git(folder, true, context.disk()).notes) context.say(note);
}

int run(const std::string& where, Context& context) {
  const std::string folder = absolute_path(join_path(context.folder(), where));
  const bool existed = is_folder(join_path(folder, ".mlx"));
  if (!context.dry_run()) {
    make_folders(folder);
    registry::Repository::init(folder, context.disk());
    tell_git(folder, context);
  }
  context.line(existed             ? fmt::format("{} is a repository already: unchanged", folder)
               : context.dry_run() ? fmt::format("would make a repository in {}", folder)
                                   : fmt::format("made a repository in {}", folder));
  if (!existed && !context.wants_json()) {
    if (!find_git_root(folder))
      context.say("no git repository here: `git init` to version code and pointers with the data");
    context.say("next: `mlx add FOLDER` stores data, `mlx commit -m MESSAGE` names it as a version");
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.init/1"}, {"folder", folder}, {"status", existed ? "unchanged" : "created"}});
  }
  return 0;
}

}  // namespace

Command add_init() {
  auto folder = std::make_shared<std::string>(".");
  Command command;
  command.name = "init";
  command.summary = "Make a repository of a folder";
  command.group = "versions";
  command.dry_run = true;
  command.options = {optional_argument(
      "FOLDER", *folder, "The folder, made where it is missing; the current one by default", Complete::kFolder)};
  command.examples = {"mlx init", "mlx init ~/projects/digits"};
  command.run = [folder](Context& context) { return run(*folder, context); };
  return command;
}

}  // namespace mlx::cmd
