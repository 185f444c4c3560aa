// mlx pull: fetches, and brings data to the worktree as the pointers say. After a fresh `git clone` it makes .mlx/
// first.
#include "cmd/pull.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/git.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/materialize.h"
#include "cmd/sync_text.h"
#include "registry/interop/git_setup.h"
#include "registry/settings/own_folder.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/sync/numbers.h"
#include "registry/sync/sync.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"

namespace mlx::cmd {
namespace {

struct PullOptions {
  std::string remote;
  bool renumber = false, force = false, all = false, allow_unrelated = false;
};

// A clone of a project that uses mlx has mlx.toml and no .mlx/ yet.
void make_repository_of_clone(Context& context) {
  if (context.has_repository()) return;
  const std::string top = find_git_root(context.folder()).value_or(context.folder());
  std::string root = context.folder();  // the project may be below the root of its git repository
  while (root != top && root != "/" && !path_exists(join_path(root, "mlx.toml"))) root = parent_path(root);
  if (!path_exists(join_path(root, "mlx.toml"))) return;  // opening says what is missing
  if (context.dry_run()) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: a fresh clone: there is no .mlx/ yet", root),
                "`mlx pull` without -n makes it");
  }
  registry::require_no_stranger(root, context.environment());
  registry::Repository::init(root, context.disk());
  context.say("made a repository in " + root);
}

int run_pull(const PullOptions& options, Context& context) {
  make_repository_of_clone(context);
  registry::Repository& repository = context.repository();
  const registry::RemoteConfig remote = chosen_remote(options.remote, context);
  const registry::SyncResult result = registry::fetch(
      repository, remote, fetch_options(options.all, options.allow_unrelated, context), context.progress());
  say_met(context, result);
  say_remarks(context, result);
  Json json;
  if (context.dry_run()) {
    context.line(would_fetch_text(remote.name, result));
    print_versions(context, result);
    json = sync_json("mlx.pull/1", remote.name, result);
  } else {
    const std::vector<registry::Renumbered> renumbered = registry::settle_numbers(repository, options.renumber);
    set_up_git_clone(repository, context);
    context.line(sync_text("pulled from", remote.name, result));
    json = sync_json("mlx.pull/1", remote.name, result);
    json["renumbered"] = Json::array();
    for (const registry::Renumbered& one : renumbered) {
      context.line(
          fmt::format("{}@v{} is v{} now  {}", context.bold(one.artifact), one.from, one.to, one.digest.brief()));
      json["renumbered"].push_back(
          {{"artifact", one.artifact}, {"digest", one.digest.text()}, {"from", one.from}, {"to", one.to}});
    }
    if (!renumbered.empty()) json["status"] = "done";
    json["artifacts"] = check_out_pointers(repository, options.force, context);
  }
  json["dry_run"] = context.dry_run();
  if (context.wants_json()) context.json(json);
  return 0;
}

}  // namespace

Json check_out_pointers(registry::Repository& repository, bool force, Context& context) {
  const bool lazy = registry::is_lazy(repository);
  Json list = Json::array();
  for (const registry::Pointer& pointer : registry::all_pointers(repository)) {
    if (say_erased(repository, pointer, context)) continue;
    if (!repository.store().has(store::ObjectKind::kManifest, pointer.digest)) {
      throw Error(ErrorKind::kNotFound,
                  fmt::format("{}: {} is neither here nor on the remote", pointer.artifact, pointer.digest.brief()),
                  "whoever made it must `mlx push` first");
    }
    const std::string path = join_path(repository.root(), pointer.artifact);
    if (pointer.kind == registry::ArtifactKind::kDataset && (!lazy || path_exists(path))) {
      materialize(repository, pointer.digest, pointer.artifact, path, force, context);
    }
    const std::optional<registry::Version> version = registry::version_of(repository, pointer.artifact, pointer.digest);
    const std::string name = version ? version->name() : pointer.artifact;
    context.line(
        fmt::format("{}  {}  {}", context.bold(name), registry::kind_name(pointer.kind), pointer.digest.brief()));
    list.push_back({{"name", name}, {"kind", registry::kind_name(pointer.kind)}, {"digest", pointer.digest.text()}});
  }
  return list;
}

void set_up_git_clone(registry::Repository& repository, Context& context) {
  const registry::GitSetup setup = registry::set_up_git(repository.root(), false, repository.disk());
  if (!setup.changed) return;  // notes are said once, when the rest is set up
  for (const std::string& note : setup.notes) context.say(note);
}

Command add_pull() {
  auto options = std::make_shared<PullOptions>();
  Command command;
  command.name = "pull";
  command.summary = "Fetch, and bring data to the worktree as the pointers say";
  command.group = "remotes";
  command.dry_run = true;
  command.options = {
      optional_argument("REMOTE", options->remote, "The remote (default: `remote.default`, `origin`, or the only one)",
                        Complete::kRemote),
      flag("--all", options->all, "Fetch the content of every version, not only of those that pointers name"),
      allow_unrelated_flag(options->allow_unrelated),
      flag("--renumber", options->renumber, "Give versions made here the next free number if theirs is taken there"),
      flag("-f,--force", options->force, "Overwrite changes in the worktree that are in no version"),
  };
  command.examples = {"git clone URL project && cd project && mlx pull", "mlx pull -n", "mlx pull --renumber"};
  command.run = [options](Context& context) { return run_pull(*options, context); };
  return command;
}

}  // namespace mlx::cmd
