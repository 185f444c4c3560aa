// mlx checkout: brings data to the worktree, as the pointers say or as a reference says.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/describe.h"
#include "cmd/materialize.h"
#include "registry/pointers.h"

namespace mlx::cmd {
namespace {

struct Options {
  std::string reference, to;
  bool force = false;
};

void need_content(registry::Repository& repository, const std::string& name, const Digest& digest) {
  if (repository.store().has(store::ObjectKind::kManifest, digest)) return;
  throw Error(ErrorKind::kNotFound, fmt::format("{}: {} is not in this repository", name, digest.brief()),
              "`mlx pull` fetches it");
}

void report(Context& context, Json& list, const std::string& name, const Digest& digest, const std::string& place) {
  context.line(fmt::format("{}  {}  {}", context.bold(name), digest.brief(), place));
  list.push_back({{"name", name}, {"digest", digest.text()}, {"place", place}});
}

// Every dataset as its pointer says.
void checkout_pointers(const Options& options, Context& context, Json& list) {
  registry::Repository& repository = context.repository();
  for (const registry::Pointer& pointer : registry::all_pointers(repository)) {
    need_content(repository, pointer.artifact, pointer.digest);
    if (pointer.kind == registry::ArtifactKind::kModel) continue;  // models are read from the store
    const std::string path = join_path(repository.root(), pointer.artifact);
    if (!context.dry_run()) {
      materialize(repository, pointer.digest, pointer.artifact, path, options.force, context);
      registry::ignore_in_git(repository, pointer.artifact);
    }
    report(context, list, pointer.artifact, pointer.digest, path);
  }
}

// One version to its place, and the pointer to it.
void checkout_version(const Options& options, Context& context, Json& list) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, options.reference);
  need_content(repository, version.name(), version.digest);
  const registry::Pointer pointer{version.artifact, version.kind, version.digest, version.files, version.bytes};
  const bool dataset = version.kind == registry::ArtifactKind::kDataset;
  const std::string path =
      join_path(repository.root(), dataset ? version.artifact : registry::pointer_path(version.kind, version.artifact));
  if (!context.dry_run()) {
    if (dataset) {
      materialize(repository, version.digest, version.artifact, path, options.force, context);
      registry::ignore_in_git(repository, version.artifact);
    }
    registry::write_pointer(repository, pointer);
  }
  report(context, list, version.name(), version.digest, path);
}

void export_version(const Options& options, Context& context, Json& list) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, options.reference);
  need_content(repository, version.name(), version.digest);
  std::string path = absolute_path(join_path(context.folder(), options.to));
  if (is_single_file(repository, version.digest, version.artifact)) path = join_path(path, base_name(version.artifact));
  if (!context.dry_run()) {
    make_folders(parent_path(path));
    materialize(repository, version.digest, version.artifact, path, options.force, context);
  }
  report(context, list, version.name(), version.digest, path);
}

int run(const Options& options, Context& context) {
  if (!options.to.empty() && options.reference.empty()) {
    throw Error(ErrorKind::kUsage, "checkout: --to needs a version", "usage: mlx checkout REF --to FOLDER");
  }
  if (!options.reference.empty() && !registry::parse_reference(options.reference).path.empty()) {
    throw Error(ErrorKind::kUsage, "checkout: a whole version is checked out, not a path inside it",
                fmt::format("`mlx cat {} >FILE` writes one file", options.reference));
  }
  Json list = Json::array();
  if (options.reference.empty())
    checkout_pointers(options, context, list);
  else if (options.to.empty())
    checkout_version(options, context, list);
  else
    export_version(options, context, list);
  if (list.empty()) context.line("nothing to check out: no pointers here");
  if (context.wants_json())
    context.json({{"schema", "mlx.checkout/1"}, {"dry_run", context.dry_run()}, {"artifacts", list}});
  return 0;
}

}  // namespace

Command add_checkout() {
  auto options = std::make_shared<Options>();
  Command command;
  command.name = "checkout";
  command.summary = "Bring data to the worktree, as the pointers or a version say";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      optional_argument("REF", options->reference, "A version; its pointer moves to it", Complete::kReference),
      option("--to", "FOLDER", options->to, "Write the version's files here and leave the pointer alone",
             Complete::kFolder),
      flag("-f,--force", options->force, "Overwrite changes that are in no version"),
  };
  command.examples = {"mlx checkout", "mlx checkout data/fashion@v1", "mlx checkout clf@production --to /tmp/clf"};
  command.run = [options](Context& context) { return run(*options, context); };
  return command;
}

}  // namespace mlx::cmd
