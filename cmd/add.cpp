// mlx add: stores files and folders by content at once, and writes the pointers that git tracks.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/cli/globs.h"
#include "cmd/describe.h"
#include "cmd/materialize.h"
#include "registry/operations/names.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/checkouts.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "store/worktree/update.h"

namespace mlx::cmd {
namespace {

// What can not be an artifact: the repository itself, what mlx or git keep, and what holds another artifact.
void check_place(const std::string& path, const std::vector<registry::Pointer>& pointers) {
  if (path.empty()) {
    throw Error(ErrorKind::kUsage, "the whole repository cannot be one dataset",
                "put the data into a folder of its own, and add that");
  }
  for (const char* kept : {".mlx", ".git"}) {
    if (path == kept || path.starts_with(std::string(kept) + "/")) {
      throw Error(ErrorKind::kUsage, fmt::format("{} is {}'s own", path, kept + 1), "add a folder of data");
    }
  }
  for (const registry::Pointer& other : pointers) {
    if (other.kind != registry::ArtifactKind::kDataset || other.artifact == path) continue;
    if (other.artifact.starts_with(path + "/")) {
      throw Error(ErrorKind::kConflict, fmt::format("{} holds the dataset {}", path, other.artifact),
                  fmt::format("add the other parts of {} one by one", path));
    }
  }
  for (const registry::Pointer& other : pointers) {
    if (path == registry::pointer_path(other.kind, other.artifact)) {
      throw Error(ErrorKind::kUsage, fmt::format("{} is a pointer", path),
                  fmt::format("did you mean `mlx add {}`?", shell_quoted(other.artifact)));
    }
  }
}

void check_name(const std::string& path) {
  if (const std::string problem = registry::artifact_name_problem(path); !problem.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' cannot name a dataset: {}", printable(path), problem),
                "rename it; names of files inside a dataset may hold any bytes");
  }
}

// A folder with one file of the folder's name looks like that file as an artifact: checkout could not tell which it
// was.
void check_shape(const std::string& full, const std::string& path, const std::vector<store::Entry>& entries) {
  if (entries.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("{} is empty: there is nothing to add", path),
                "put files into it first");
  }
  if (is_folder(full) && entries.size() == 1 && entries[0].path == base_name(path)) {
    throw Error(ErrorKind::kUsage, fmt::format("{} holds only a file of the same name", path),
                fmt::format("add that file: `mlx add {}`", shell_quoted(path + "/" + entries[0].path)));
  }
}

struct Added {
  registry::Pointer pointer;
  bool changed = false;
  store::Difference difference;
};

Added add_one(registry::Repository& repository, const std::string& path, Context& context) {
  const std::string full = join_path(repository.root(), path);
  if (!path_exists(full))
    throw Error(ErrorKind::kNotFound, fmt::format("{}: no such file or folder", path), "check the name");
  require_own_place(repository.root(), path);
  const std::optional<registry::Pointer> before = registry::read_pointer(repository, path);
  Added added;
  added.pointer = {.artifact = path, .kind = registry::ArtifactKind::kDataset};
  if (context.dry_run()) {
    const std::vector<store::Entry> entries =
        store::scan(full, &repository.stat_cache(), repository.pool(), context.progress());
    check_shape(full, path, entries);
    const bool here = before && repository.store().has(store::ObjectKind::kManifest, before->digest);
    added.difference =
        store::compare(here ? repository.store().entries(before->digest) : std::vector<store::Entry>(), entries);
    added.changed = !here || !added.difference.empty();
    for (const store::Entry& entry : entries) added.pointer.files += 1, added.pointer.size += entry.size;
    return added;
  }
  registry::store_under_domain_of(repository, path);
  const store::ManifestSummary summary =
      store::add_folder(repository.store(), full, before ? &before->digest : nullptr, &repository.stat_cache(),
                        repository.pool(), context.progress());
  added.pointer.digest = summary.id;
  added.pointer.files = summary.files;
  added.pointer.size = summary.bytes;
  added.changed = before != added.pointer;
  if (const std::optional<registry::Erasure> erasure = registry::erasure_of(repository, summary.id)) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: this content was erased {}", printable(path), erasure_text(*erasure)),
                "erased content is not stored again under the same id; add a folder that differs");
  }
  return added;
}

// Adds files or folders inside a dataset: the new version has these as they are now, and all else as the pointer says.
Added add_inside(registry::Repository& repository, const registry::Pointer& before,
                 const std::vector<std::string>& parts, Context& context) {
  registry::need_files_of(repository, before.artifact, before.digest);  // the other parts must be here
  const std::string full = join_path(repository.root(), before.artifact);
  require_own_place(repository.root(), before.artifact);
  const std::vector<store::Entry> base = repository.store().entries(before.digest);
  Added added;
  added.pointer = before;
  store::ManifestSummary summary;
  if (context.dry_run()) {
    std::vector<store::Entry> standing;
    if (path_exists(full))
      standing = store::scan(full, &repository.stat_cache(), repository.pool(), context.progress());
    const std::vector<store::Entry> after = store::with_parts(base, standing, parts);
    added.difference = store::compare(base, after);
    summary = store::summarize(after);
  } else {
    summary = store::add_parts(repository.store(), base, full, parts, repository.pool(), context.progress());
  }
  if (summary.files == 0) {
    throw Error(ErrorKind::kUsage, fmt::format("{} would have no files left", before.artifact),
                fmt::format("`mlx rm {}` removes the dataset", shell_quoted(before.artifact)));
  }
  added.pointer.digest = summary.id;
  added.pointer.files = summary.files;
  added.pointer.size = summary.bytes;
  added.changed = before != added.pointer;
  return added;
}

// What the folder was made as moves with the pointer, unless it was made as something else than the pointer said: then
// it still is that, with changes.
void point_to(registry::Repository& repository, const Added& added, const std::optional<registry::Pointer>& before,
              bool whole, Context& context) {
  const std::string& artifact = added.pointer.artifact;
  const std::optional<Digest> noted = registry::checked_out_as(repository, artifact);
  const bool drifted = before && noted && *noted != before->digest;
  if (whole && drifted && added.changed) {
    context.say(
        fmt::format("{}: the folder was checked out as {}, but its pointer named {}: the changes between the two are "
                    "not in what was added",
                    artifact, noted->brief(), before->digest.brief()));
  }
  registry::ignore_in_git(repository, artifact);
  registry::write_pointer(repository, added.pointer);
  if (whole || !drifted) registry::note_checked_out(repository, artifact, added.pointer.digest);
}

// One dataset to add: as a whole, or parts of one that is there already.
struct Addition {
  std::string artifact;
  std::vector<std::string> parts;
  std::optional<registry::Pointer> before;
};

std::vector<Addition> additions_of(const std::vector<std::string>& paths,
                                   const std::vector<registry::Pointer>& pointers) {
  std::vector<Addition> tasks;
  for (const std::string& path : paths) {
    check_place(path, pointers);
    Addition task{path, {}, {}};
    for (const registry::Pointer& pointer : pointers) {
      if (pointer.kind != registry::ArtifactKind::kDataset) continue;
      if (pointer.artifact == path) task.before = pointer;
      if (!path.starts_with(pointer.artifact + "/")) continue;
      task = {pointer.artifact, {path.substr(pointer.artifact.size() + 1)}, pointer};
    }
    if (task.parts.empty()) check_name(path);
    const auto same = std::ranges::find(tasks, task.artifact, &Addition::artifact);
    if (same == tasks.end() || task.parts.empty())
      tasks.push_back(std::move(task));
    else
      same->parts.push_back(task.parts[0]);
  }
  return tasks;
}

// A shell's `data/*` also names the pointers beside the data.
void leave_out_pointers(std::vector<std::string>& paths, const std::vector<registry::Pointer>& pointers) {
  const std::set<std::string> named(paths.begin(), paths.end());
  std::erase_if(paths, [&](const std::string& path) {
    return std::ranges::any_of(pointers, [&](const registry::Pointer& pointer) {
      return path == registry::pointer_path(pointer.kind, pointer.artifact) && named.contains(pointer.artifact);
    });
  });
}

int run_add(const std::vector<std::string>& words, Context& context) {
  registry::Repository& repository = context.repository();
  repository.require_history();
  const std::vector<registry::Pointer> pointers = registry::all_pointers(repository);
  std::vector<std::string> paths = expand_paths(words, context);
  leave_out_pointers(paths, pointers);
  const std::vector<Addition> tasks = additions_of(paths, pointers);
  // All content first: if something cannot be read, no pointer has moved.
  std::vector<Added> all;
  all.reserve(tasks.size());
  for (const Addition& task : tasks) {
    all.push_back(task.parts.empty() ? add_one(repository, task.artifact, context)
                                     : add_inside(repository, *task.before, task.parts, context));
  }
  Json list = Json::array();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Added& added = all[i];
    const std::string& path = tasks[i].artifact;
    if (!context.dry_run()) point_to(repository, added, tasks[i].before, tasks[i].parts.empty(), context);
    const std::string size = files_text(added.pointer.files, added.pointer.size);
    const char* status = !added.changed ? "unchanged" : context.dry_run() ? "would be added" : "added";
    context.line(context.dry_run() ? fmt::format("{}  {}  {}", context.bold(printable(path)), size, status)
                                   : fmt::format("{}  {}  {}  {}", context.bold(printable(path)), size,
                                                 added.pointer.digest.brief(), status));
    if (context.dry_run()) print_difference(context, added.difference, 20);
    Json one = {{"artifact", path},
                {"files", added.pointer.files},
                {"bytes", added.pointer.size},
                {"status", added.changed ? "added" : "unchanged"}};
    if (context.dry_run())
      one["difference"] = difference_json(added.difference);
    else
      one["digest"] = added.pointer.digest.text();
    list.push_back(std::move(one));
  }
  if (context.wants_json())
    context.json({{"schema", "mlx.add/1"}, {"dry_run", context.dry_run()}, {"artifacts", list}});
  return 0;
}

}  // namespace

Command add_add() {
  auto paths = std::make_shared<std::vector<std::string>>();
  Command command;
  command.name = "add";
  command.summary = "Store files or folders by content, and write their pointers";
  command.group = "versions";
  command.dry_run = true;
  command.options = {arguments(
      "PATH", *paths,
      "A folder or a single file, which becomes a dataset; or a path inside a dataset. May be a quoted pattern",
      Complete::kFile)};
  command.examples = {"mlx add data/fashion", "mlx add -n data/fashion", "mlx add corpus.txt labels.csv",
                      "mlx add 'data/*.csv'", "mlx add data/fashion/new.png"};
  command.run = [paths](Context& context) { return run_add(*paths, context); };
  return command;
}

}  // namespace mlx::cmd
