// mlx import: makes datasets of what another tool keeps, out of that tool's own store. Models: import_model.cpp.
#include <fmt/format.h>

#include <memory>

#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/import_model.h"
#include "registry/interop/dvc.h"
#include "registry/interop/lfs_import.h"
#include "store/worktree/beneath.h"

namespace mlx::cmd {
namespace {

using registry::ImportDataset;

// Imports each dataset and says so; the caller says what is left to do by hand.
int import_all(const char* from, const std::vector<ImportDataset>& datasets, Context& context) {
  registry::Repository& repository = context.repository();
  std::vector<registry::Imported> imported;
  if (context.dry_run()) {
    for (const ImportDataset& dataset : datasets) {
      registry::Imported one;
      one.pointer.artifact = dataset.artifact;
      one.pointer.files = dataset.files.size();
      one.pointer.size = dataset.bytes();
      one.changed = true;
      imported.push_back(std::move(one));
    }
  } else {
    imported = registry::import_datasets(repository, datasets, context.progress());
  }
  Json list = Json::array();
  for (const auto& [pointer, changed] : imported) {
    const char* status = changed ? "imported" : "unchanged";
    const std::string id = context.dry_run() ? "" : pointer.digest.brief() + "  ";
    context.line(fmt::format("{}  {}  {}{}", context.bold(printable(pointer.artifact)),
                             files_text(pointer.files, pointer.size), id,
                             context.dry_run() ? "would be imported" : status));
    Json one = {{"artifact", pointer.artifact}, {"files", pointer.files}, {"bytes", pointer.size}, {"status", status}};
    if (!context.dry_run()) one["digest"] = pointer.digest.text();
    list.push_back(std::move(one));
  }
  if (datasets.empty()) context.line("nothing to import");
  if (context.wants_json())
    context.json({{"schema", "mlx.import/1"}, {"from", from}, {"dry_run", context.dry_run()}, {"datasets", list}});
  return 0;
}

std::vector<std::string> inside(const std::vector<std::string>& paths, Context& context) {
  std::vector<std::string> list;
  list.reserve(paths.size());
  for (const std::string& path : paths) list.push_back(context.repository().inside(path, context.folder()));
  return list;
}

int import_lfs(const std::vector<std::string>& paths, Context& context) {
  const std::vector<ImportDataset> datasets = registry::find_lfs_datasets(context.repository(), inside(paths, context));
  const int code = import_all("lfs", datasets, context);
  if (!context.dry_run()) {
    for (const ImportDataset& dataset : datasets)
      context.say(fmt::format("git still tracks it: git rm -r -q --cached {} && git add {}",
                              shell_quoted(dataset.artifact), shell_quoted(dataset.artifact + ".mlx")));
  }
  return code;
}

struct DvcOptions {
  std::vector<std::string> paths;
  bool remove = false;
};

int import_dvc(const DvcOptions& options, Context& context) {
  const registry::DvcDatasets found = registry::find_dvc_datasets(context.repository(), inside(options.paths, context));
  const int code = import_all("dvc", found.datasets, context);
  if (options.remove && !context.dry_run()) {
    const std::string& root = context.repository().root();
    const store::Beneath worktree(root);
    for (const std::string& file : found.dvc_files) worktree.remove(relative_inside(file, root).value());
  }
  return code;
}

}  // namespace

Command add_import() {
  auto paths = std::make_shared<std::vector<std::string>>();
  Command lfs;
  lfs.name = "lfs";
  lfs.summary = "Make datasets from what Git LFS tracks at HEAD";
  lfs.dry_run = true;
  lfs.options = {arguments("PATH", *paths,
                           "A folder or file that becomes one dataset; by default the topmost folders that are all in "
                           "Git LFS, and single files",
                           Complete::kFile, false)};
  lfs.examples = {"mlx import lfs", "mlx import lfs data/fashion"};
  lfs.run = [paths](Context& context) { return import_lfs(*paths, context); };

  auto options = std::make_shared<DvcOptions>();
  Command dvc;
  dvc.name = "dvc";
  dvc.summary = "Make datasets from .dvc files and the cache of DVC";
  dvc.dry_run = true;
  dvc.options = {arguments("PATH", options->paths,
                           "A .dvc file, the data that one is for, or a folder to search; everything by default",
                           Complete::kFile, false),
                 flag("--remove", options->remove, "Remove the .dvc files of the imported data")};
  dvc.examples = {"mlx import dvc", "mlx import dvc data/fashion.dvc --remove"};
  dvc.run = [options](Context& context) { return import_dvc(*options, context); };

  Command command;
  command.name = "import";
  command.summary = "Make datasets and models from what others made";
  command.group = "data";
  command.subcommands = {dvc, lfs, import_model_command()};
  return command;
}

}  // namespace mlx::cmd
