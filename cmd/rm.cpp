// mlx rm: takes a dataset or a model out of the worktree, or files out of a dataset. Versions stay in the history.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/cli/globs.h"
#include "cmd/describe.h"
#include "cmd/materialize.h"
#include "registry/versions/checkouts.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "store/worktree/beneath.h"
#include "store/worktree/update.h"

namespace mlx::cmd {
namespace {

struct RmOptions {
  std::vector<std::string> paths;
  bool cached = false, force = false;
};

// One artifact, or parts of one. All are planned before the first is removed.
struct Removal {
  registry::Pointer pointer;
  std::vector<std::string> parts;           // none: all of it
  std::vector<store::CheckoutPlan> remove;  // from the worktree
};

[[noreturn]] void fail_unknown(const std::string& path) {
  throw Error(ErrorKind::kNotFound, fmt::format("{}: no dataset and no model is there", printable(path)),
              "`mlx status` lists them");
}

// The words as names of models and datasets first, then as paths.
std::vector<Removal> removals_of(const RmOptions& options, Context& context) {
  const std::vector<registry::Pointer> pointers = registry::all_pointers(context.repository());
  std::vector<Removal> removals;
  const auto removal_of = [&](const registry::Pointer& pointer) -> Removal& {
    for (Removal& removal : removals) {
      if (removal.pointer == pointer) return removal;
    }
    removals.push_back({pointer, {}, {}});
    return removals.back();
  };
  std::vector<std::string> words;
  for (const std::string& word : options.paths) {
    const auto model = std::ranges::find_if(pointers, [&](const registry::Pointer& pointer) {
      return pointer.kind == registry::ArtifactKind::kModel && pointer.artifact == word;
    });
    if (model == pointers.end())
      words.push_back(word);
    else
      removal_of(*model);
  }
  for (const std::string& path : expand_paths(words, context)) {
    bool found = false;
    for (const registry::Pointer& pointer : pointers) {
      const std::string place = registry::pointer_path(pointer.kind, pointer.artifact);
      const bool dataset = pointer.kind == registry::ArtifactKind::kDataset;
      if (path == place || (dataset && path == pointer.artifact)) {
        removal_of(pointer).parts.clear();
        found = true;
      } else if (dataset && path.starts_with(pointer.artifact + "/")) {
        removal_of(pointer).parts.push_back(path.substr(pointer.artifact.size() + 1));
        found = true;
      }
    }
    if (!found) fail_unknown(path);
  }
  return removals;
}

void require_committed(registry::Repository& repository, const registry::Pointer& pointer) {
  if (registry::version_of(repository, pointer.artifact, pointer.digest)) return;
  throw Error(ErrorKind::kConflict, fmt::format("{}: the last added content is in no version", pointer.artifact),
              "`mlx commit -m MESSAGE` makes one; --force removes it all the same");
}

// Files of an erased version are stored nowhere else, whatever the packs still hold.
void require_stored(registry::Repository& repository, const registry::Pointer& pointer, const std::string& folder) {
  if (!registry::erasure_of(repository, pointer.digest) || !path_exists(folder)) return;
  throw Error(ErrorKind::kConflict,
              fmt::format("{}: its version was erased, and the worktree's content is stored nowhere else",
                          printable(pointer.artifact)),
              "--cached removes the pointer and keeps the files; --force removes both");
}

void plan_removal(Removal& removal, const RmOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Pointer& pointer = removal.pointer;
  if (removal.parts.empty() && !options.force && !options.cached) require_committed(repository, pointer);
  if (pointer.kind == registry::ArtifactKind::kModel) return;
  const std::string folder = join_path(repository.root(), pointer.artifact);
  if (!removal.parts.empty()) {
    const std::vector<store::Entry> base = repository.store().entries(pointer.digest);
    for (const std::string& part : removal.parts) {
      if (store::entries_inside(base, part).empty()) {
        throw Error(ErrorKind::kNotFound, fmt::format("{} has nothing at '{}'", pointer.artifact, printable(part)),
                    fmt::format("`mlx ls {}` lists its files", shell_quoted(pointer.artifact)));
      }
    }
    if (store::with_parts(base, {}, removal.parts).empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("{} would have no files left", pointer.artifact),
                  fmt::format("`mlx rm {}` removes the dataset", shell_quoted(pointer.artifact)));
    }
  }
  if (options.cached || !path_exists(folder)) return;
  if (!options.force) require_stored(repository, pointer, folder);
  require_own_place(repository.root(), pointer.artifact);
  store::CheckoutOptions how;
  how.force = options.force;
  how.root = repository.root();
  how.single = !is_folder(folder);
  for (const std::string& part : removal.parts.empty() ? std::vector<std::string>{""} : removal.parts) {
    how.inside = part;
    removal.remove.push_back(store::plan_checkout(repository.store(), {}, folder, how, &repository.stat_cache(),
                                                  repository.pool(), context.progress()));
  }
}

// First the worktree, then the pointer: after a crash in between, `mlx checkout` brings the dataset back.
void carry_out(Removal& removal, Context& context) {
  registry::Repository& repository = context.repository();
  registry::Pointer& pointer = removal.pointer;
  store::ManifestSummary rest;
  if (!removal.parts.empty()) {
    rest = store::drop_parts(repository.store(), repository.store().entries(pointer.digest), removal.parts);
  }
  for (const store::CheckoutPlan& plan : removal.remove) {
    carry_out_version(repository, plan, pointer.digest, "", store::LinkMode::kCopy, context);
  }
  if (removal.parts.empty()) {
    // It stays if it is not empty.
    if (!removal.remove.empty()) store::Beneath(repository.root()).remove_folder(pointer.artifact);
    registry::remove_pointer(repository, pointer);
    registry::unignore_in_git(repository, pointer.artifact);
    registry::note_checked_out(repository, pointer.artifact, {});
    return;
  }
  const bool drifted =
      registry::checked_out_as(repository, pointer.artifact).value_or(pointer.digest) != pointer.digest;
  pointer.digest = rest.id;
  pointer.files = rest.files;
  pointer.size = rest.bytes;
  registry::write_pointer(repository, pointer);
  if (!drifted) registry::note_checked_out(repository, pointer.artifact, pointer.digest);
}

void report(const Removal& removal, Context& context, Json& list) {
  std::uint64_t files = 0, bytes = 0;
  Json paths = Json::array();
  for (const store::CheckoutPlan& plan : removal.remove) {
    files += plan.remove.size();
    for (const store::Entry& entry : plan.remove) bytes += entry.size, paths.push_back(entry_json(entry));
  }
  const std::string what = removal.parts.empty()
                               ? removal.pointer.artifact
                               : fmt::format("{} without {}", removal.pointer.artifact,
                                             removal.parts.size() == 1 ? printable(removal.parts[0])
                                                                       : fmt::format("{} paths", removal.parts.size()));
  context.line(fmt::format("{}  {}  {}", context.bold(what), context.dry_run() ? "would be removed" : "removed",
                           files == 0 ? "the files stay" : files_text(files, bytes)));
  if (context.dry_run()) {
    for (const store::CheckoutPlan& plan : removal.remove) {
      for (const store::Entry& entry : plan.remove) context.line(fmt::format("    remove  {}", printable(entry.path)));
    }
  }
  list.push_back({{"artifact", removal.pointer.artifact},
                  {"kind", registry::kind_name(removal.pointer.kind)},
                  {"paths", removal.parts},
                  {"removed", paths},
                  {"digest", removal.parts.empty() ? Json() : Json(removal.pointer.digest.text())}});
}

int run_rm(const RmOptions& options, Context& context) {
  std::vector<Removal> removals = removals_of(options, context);
  for (Removal& removal : removals) plan_removal(removal, options, context);
  Json list = Json::array();
  for (Removal& removal : removals) {
    if (!context.dry_run()) carry_out(removal, context);
    report(removal, context, list);
  }
  const bool gone = std::ranges::all_of(removals, [&](const Removal& removal) {
    return registry::erasure_of(context.repository(), removal.pointer.digest).has_value();
  });
  if (!context.dry_run() && !gone)
    context.say("to take it back: `git checkout` the pointer, or `mlx checkout NAME@latest`");
  if (context.wants_json()) context.json({{"schema", "mlx.rm/1"}, {"dry_run", context.dry_run()}, {"artifacts", list}});
  return 0;
}

}  // namespace

Command add_rm() {
  auto options = std::make_shared<RmOptions>();
  Command command;
  command.name = "rm";
  command.summary = "Remove a dataset or model from the worktree, or files from a dataset";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      arguments("PATH", options->paths, "A dataset, a model, or a file or folder inside a dataset", Complete::kFile),
      flag("--cached", options->cached, "Keep the files; remove the pointer, or remove them from it"),
      flag("-f,--force", options->force, "Also remove what is stored nowhere or in no version"),
  };
  command.examples = {"mlx rm data/fashion", "mlx rm --cached clf", "mlx rm data/fashion/old.png"};
  command.run = [options](Context& context) { return run_rm(*options, context); };
  return command;
}

}  // namespace mlx::cmd
