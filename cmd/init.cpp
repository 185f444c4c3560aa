// mlx init: makes a repository of a folder.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/git.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/cli/cli.h"
#include "cmd/new_keys.h"
#include "registry/interop/git_setup.h"
#include "registry/repository.h"
#include "registry/settings/own_folder.h"

namespace mlx::cmd {
namespace {

struct InitOptions {
  std::string folder = ".";
  bool encrypt = false;
  NewKeysOptions keys;
};

bool is_encrypted(const std::string& mlx, Context& context) {
  return store::Store(mlx, context.disk(), context.pool()).encrypted();
}

// The merge driver and the hook, if there is a git repository.
void tell_git(const std::string& folder, Context& context) {
  for (const std::string& note : registry::set_up_git(folder, true, context.disk()).notes) context.say(note);
}

// The keys first: a store without keys could not be written to. Without them nothing is made.
void make(const std::string& folder, const InitOptions& options, Context& context) {
  registry::require_no_stranger(folder, context.environment());
  const std::string mlx = join_path(folder, ".mlx");
  if (options.encrypt) {
    registry::Keys keys(join_path(mlx, "keys"), context.disk());
    (void)make_keys_where_missing(keys, options.keys, context);
  }
  registry::Repository::init(folder, context.disk(), options.encrypt);
  tell_git(folder, context);
}

int run_init(const InitOptions& options, Context& context) {
  const std::string& where = options.folder;
  const std::string folder = absolute_path(join_path(context.folder(), where));
  const bool existed = is_folder(join_path(folder, ".mlx"));
  if (existed && options.encrypt && path_exists(join_path(folder, ".mlx/packs/FORMAT")) &&
      !is_encrypted(join_path(folder, ".mlx"), context)) {
    throw Error(ErrorKind::kConflict, fmt::format("{}: is a repository that is not encrypted", folder),
                "its contents would stay in clear: `mlx clone --encrypt` of an encrypted remote makes an encrypted "
                "clone elsewhere");
  }
  if (existed && !path_exists(join_path(folder, ".mlx/keys")) && path_exists(join_path(folder, ".mlx/packs/FORMAT")) &&
      is_encrypted(join_path(folder, ".mlx"), context)) {
    throw Error(ErrorKind::kConflict,
                fmt::format("{}/.mlx/keys: the keys of this encrypted repository are missing", folder),
                "new keys could not read it: `mlx pull` takes the old ones from its remote, or restore a backup");
  }
  if (!context.dry_run()) make(folder, options, context);
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
  auto options = std::make_shared<InitOptions>();
  Command command;
  command.name = "init";
  command.summary = "Make a folder a repository";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      optional_argument("FOLDER", options->folder, "The folder, made if it is missing (default: the current one)",
                        Complete::kFolder),
      flag("--encrypt", options->encrypt, "Encrypt all contents, see mlx-key(1)"),
  };
  for (Option& one : new_keys_options(options->keys)) command.options.push_back(std::move(one));
  command.examples = {"mlx init", "mlx init ~/projects/digits", "mlx init --encrypt"};
  command.run = [options](Context& context) { return run_init(*options, context); };
  return command;
}

}  // namespace mlx::cmd
