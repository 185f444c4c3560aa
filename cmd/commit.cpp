// mlx commit: makes versions of what was added, with a message.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "registry/keys/trust.h"
#include "registry/record/judge.h"
#include "registry/versions/pointers.h"

namespace mlx::cmd {
namespace {

registry::Version commit_one(registry::Repository& repository, const registry::Pointer& pointer,
                             const std::string& message) {
  if (!repository.store().has(store::ObjectKind::kManifest, pointer.digest)) {
    throw Error(
        ErrorKind::kNotFound,
        fmt::format("{}: the pointer names {}, which is not in this repository", pointer.artifact,
                    pointer.digest.brief()),
        fmt::format("`mlx pull` fetches it, `mlx add {}` stores what is there now", shell_quoted(pointer.artifact)));
  }
  registry::NewVersion version;
  version.artifact = pointer.artifact;
  version.kind = pointer.kind;
  version.manifest = repository.store().summarize(pointer.digest);
  version.message = message;
  const std::vector<registry::Version> before = registry::versions(repository, pointer.artifact);
  if (!before.empty()) version.parent = before.back().digest;
  return registry::create_version(repository, version).version;
}

struct CommitOptions {
  std::string message;
  std::vector<std::string> paths;
};

// The artifacts to commit: those that are named, or all.
std::set<std::string> chosen_artifacts(const CommitOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  std::set<std::string> chosen;
  for (const std::string& path : options.paths) {
    std::string artifact = repository.inside(path, context.folder());
    if (artifact.ends_with(".mlx")) artifact.resize(artifact.size() - 4);  // its pointer
    if (!registry::read_pointer(repository, artifact))
      throw Error(ErrorKind::kNotFound, fmt::format("{}: nothing was added there", path),
                  fmt::format("`mlx add {}` stores it first", shell_quoted(path)));
    chosen.insert(std::move(artifact));
  }
  return chosen;
}

int run_commit(const CommitOptions& options, Context& context) {
  if (options.message.empty())
    throw Error(ErrorKind::kUsage, "commit: the message is empty", "describe the version: -m TEXT");
  registry::Repository& repository = context.repository();
  const std::set<std::string> chosen = chosen_artifacts(options, context);
  Json list = Json::array();
  for (const registry::Pointer& pointer : registry::all_pointers(repository)) {
    if (pointer.kind != registry::ArtifactKind::kDataset) continue;  // training and quantizing make models' versions
    if (!chosen.empty() && !chosen.contains(pointer.artifact)) continue;
    if (registry::version_of(repository, pointer.artifact, pointer.digest)) continue;
    registry::require_may_record(repository, "version.create");
    if (context.dry_run()) {
      context.line(
          fmt::format("would commit {}  {}", context.bold(pointer.artifact), files_text(pointer.files, pointer.size)));
      list.push_back({{"artifact", pointer.artifact}, {"digest", pointer.digest.text()}});
      continue;
    }
    const registry::Version version = commit_one(repository, pointer, options.message);
    context.line(fmt::format("{}  {}  {}  {}", context.bold(version.name()), version.digest.brief(),
                             files_text(version.files, version.bytes), version.message));
    list.push_back(version_json(version));
  }
  if (list.empty()) context.line("nothing to commit");
  if (context.wants_json())
    context.json({{"schema", "mlx.commit/1"}, {"dry_run", context.dry_run()}, {"versions", list}});
  return 0;
}

}  // namespace

Command add_commit() {
  auto options = std::make_shared<CommitOptions>();
  Command command;
  command.name = "commit";
  command.summary = "Make versions of what was added, with a message";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      arguments("PATH", options->paths, "Only what was added there; everything by default", Complete::kFile, false),
      option("-m,--message", "TEXT", options->message, "A description of the version"),
  };
  command.options.back().required = true;
  command.examples = {"mlx commit -m \"Fashion-MNIST\"", "mlx commit data/fashion -m \"labels corrected\""};
  command.run = [options](Context& context) { return run_commit(*options, context); };
  return command;
}

}  // namespace mlx::cmd
