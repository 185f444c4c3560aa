// mlx add: stores files and folders by content at once, and writes the pointers that git tracks.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/describe.h"
#include "registry/checkouts.h"
#include "registry/domains.h"
#include "registry/pointers.h"

namespace mlx::cmd {
namespace {

// What can not be an artifact: the repository itself, what mlx or git keep, and what overlaps with another artifact.
void check_place(const std::string& path, const std::vector<registry::Pointer>& pointers) {
  if (path.empty()) {
    throw Error(ErrorKind::kUsage, "the whole repository can not be one dataset",
                "put the data into a folder of its own, and add that");
  }
  for (const char* kept : {".mlx", ".git"}) {
    if (path == kept || path.starts_with(std::string(kept) + "/")) {
      throw Error(ErrorKind::kUsage, fmt::format("{} is {}'s own", path, kept + 1), "add a folder of data");
    }
  }
  for (const registry::Pointer& other : pointers) {
    if (other.kind != registry::ArtifactKind::kDataset || other.artifact == path) continue;
    if (path.starts_with(other.artifact + "/")) {
      throw Error(ErrorKind::kConflict, fmt::format("{} is part of the dataset {}", path, other.artifact),
                  fmt::format("`mlx add {}` adds all of it", other.artifact));
    }
    if (other.artifact.starts_with(path + "/")) {
      throw Error(ErrorKind::kConflict, fmt::format("{} holds the dataset {}", path, other.artifact),
                  fmt::format("add the other parts of {} one by one", path));
    }
  }
  for (const registry::Pointer& other : pointers) {
    if (path == registry::pointer_path(other.kind, other.artifact)) {
      throw Error(ErrorKind::kUsage, fmt::format("{} is a pointer", path),
                  fmt::format("did you mean `mlx add {}`?", other.artifact));
    }
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
                fmt::format("add that file: `mlx add {}/{}`", path, entries[0].path));
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
  repository.store().use_domain(registry::domain_of(repository, path));
  const store::ManifestSummary summary =
      store::add_folder(repository.store(), full, before ? &before->digest : nullptr, &repository.stat_cache(),
                         repository.pool(), context.progress());
  added.pointer.digest = summary.id;
  added.pointer.files = summary.files;
  added.pointer.size = summary.bytes;
  registry::ignore_in_git(repository, path);
  added.changed = registry::write_pointer(repository, added.pointer);
  registry::note_checked_out(repository, path, summary.id);
  return added;
}

int run(const std::vector<std::string>& paths, Context& context) {
  registry::Repository& repository = context.repository();
  const std::vector<registry::Pointer> pointers = registry::all_pointers(repository);
  std::vector<std::string> inside;
  for (const std::string& path : paths) {
    inside.push_back(repository.inside(path, context.folder()));
    check_place(inside.back(), pointers);
  }
  Json list = Json::array();
  for (const std::string& path : inside) {
    const Added added = add_one(repository, path, context);
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
  command.options = {arguments("PATH", *paths, "A folder, or a single file; each becomes a dataset", Complete::kFile)};
  command.examples = {"mlx add data/fashion", "mlx add -n data/fashion", "mlx add corpus.txt labels.csv"};
  command.run = [paths](Context& context) { return run(*paths, context); };
  return command;
}

}  // namespace mlx::cmd
