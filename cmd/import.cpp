// mlx import: makes datasets of what another tool keeps, out of that tool's own store, and a model of a folder.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "graph/session/not_finite.h"
#include "infer/signature.h"
#include "nn/imported.h"
#include "nn/model.h"
#include "registry/interop/dvc.h"
#include "registry/interop/lfs_import.h"
#include "registry/operations/names.h"
#include "registry/versions/domains.h"
#include "store/worktree/beneath.h"
#include "work/work.h"

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

struct ModelOptions {
  std::string folder, name;
};

// NaN in weights can hide: the maximum of NaN and 0 is 0 to some kernels.
void warn_of_nan(const nn::Model& model, Context& context) {
  std::size_t tensors = 0;
  std::string first;
  for (const auto& [name, weight] : model.weights->all()) {
    if (graph::all_finite(weight->data(), weight->shape().dtype)) continue;
    if (tensors++ == 0) first = name;
  }
  if (tensors > 0)
    context.progress().warn(fmt::format("{} of {} tensors hold NaN or infinity, first '{}'", tensors,
                                        model.weights->size(), printable(first)));
}

// The folder's model, as it is stored.
nn::Model read_outside(const std::string& folder, Context& context) {
  nn::Model model = nn::load_model_folder(join_path(context.folder(), folder)).model;
  try {
    if (model.family == nn::kImported) model = nn::imported(std::move(model));
    (void)infer::signature_of(model);
  } catch (const Error& error) {
    throw Error(error.kind, fmt::format("{}: {}", printable(folder), error.message), error.hint);
  }
  warn_of_nan(model, context);
  return model;
}

std::string name_for(const ModelOptions& options, Context& context) {
  std::string name =
      options.name.empty() ? base_name(absolute_path(join_path(context.folder(), options.folder))) : options.name;
  if (const std::string problem = registry::artifact_name_problem(name); !problem.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' cannot name a model: {}", printable(name), problem),
                "choose one: --name NAME");
  }
  return name;
}

registry::Created store_model_version(const ModelOptions& options, const std::string& name, const nn::Model& model,
                                      registry::Repository& repository) {
  registry::store_under_domain_of(repository, name);
  registry::NewVersion version;
  version.artifact = name;
  version.kind = registry::ArtifactKind::kModel;
  version.manifest = nn::store_model(repository.store(), model);
  version.message = "imported from " + printable(options.folder);
  if (const std::optional<registry::Erasure> erasure = registry::erasure_of(repository, version.manifest.id)) {
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: this content was erased {}", printable(options.folder), erasure_text(*erasure)),
                "erased content is not stored again under the same id");
  }
  registry::Created created = registry::create_version(repository, version);
  work::point_at(repository, created.version);
  return created;
}

int import_model(const ModelOptions& options, Context& context) {
  const std::string name = name_for(options, context);
  const nn::Model model = read_outside(options.folder, context);
  const std::string what = fmt::format("{} operations, {} tensors", model.graph.nodes.size(), model.weights->size());
  Json json = {{"schema", "mlx.import/1"}, {"from", "model"}, {"dry_run", context.dry_run()}};
  if (context.dry_run()) {
    context.line(fmt::format("{}  {}  would be imported", context.bold(name), what));
  } else {
    const auto [version, made] = store_model_version(options, name, model, context.repository());
    const char* status = made ? "imported" : "unchanged";
    context.line(fmt::format("{}  {}  {}  {}", context.bold(version.name()), version.digest.brief(), what, status));
    json["model"] = version.name();
    json["digest"] = version.digest.text();
    json["status"] = status;
  }
  if (context.wants_json()) context.json(json);
  return 0;
}

Command import_model_command() {
  auto options = std::make_shared<ModelOptions>();
  Command model;
  model.name = "model";
  model.summary = "Make a model of a folder with model.json and weights.safetensors";
  model.dry_run = true;
  model.options = {argument("FOLDER", options->folder, "The folder", Complete::kFile),
                   option("--name", "NAME", options->name, "The model's name (default: the folder's)")};
  model.examples = {"mlx import model net", "mlx import model /tmp/net --name clf"};
  model.run = [options](Context& context) { return import_model(*options, context); };
  return model;
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
