// mlx export: writes a version the way another tool keeps its data, or a training the way a cluster wants it. Models
// for other programs: export_model.cpp; servers: export_serving.cpp.
#include <fmt/format.h>

#include <memory>

#include "base/json.h"
#include "base/path.h"
#include "cmd/describe.h"
#include "cmd/export_jobs.h"
#include "cmd/export_model.h"
#include "cmd/export_serving.h"
#include "registry/interop/lfs_export.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

struct ExportOptions {
  std::string reference, folder;
};

int export_to_lfs(const ExportOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = registry::resolve(repository, options.reference);
  const std::string folder = absolute_path(join_path(context.folder(), options.folder));
  const registry::LfsExport report =
      registry::export_lfs(repository, version.digest, folder, context.dry_run(), context.progress());
  for (const std::string& note : report.notes) context.say(note);
  const bool changed = report.pointers + report.objects > 0;
  const char* status = !changed ? "unchanged" : context.dry_run() ? "would be exported" : "exported";
  context.line(fmt::format("{} -> {}  {} pointers, {} objects, {}  {}", context.bold(printable(version.name())),
                           printable(options.folder), report.pointers, report.objects, format_bytes(report.bytes),
                           status));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.export/1"},
                  {"to", "lfs"},
                  {"version", version.name()},
                  {"digest", version.digest.text()},
                  {"pointers", report.pointers},
                  {"objects", report.objects},
                  {"bytes", report.bytes},
                  {"status", changed ? "exported" : "unchanged"},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

}  // namespace

Command add_export() {
  auto options = std::make_shared<ExportOptions>();
  Command lfs;
  lfs.name = "lfs";
  lfs.summary = "Write a version as pointers and objects of Git LFS";
  lfs.dry_run = true;
  lfs.options = {
      argument("REF", options->reference, "The version", Complete::kReference),
      argument("DIR", options->folder, "The folder for its pointers, inside a git repository", Complete::kFolder),
  };
  lfs.examples = {"mlx export lfs data/fashion@v2 ../with-lfs/fashion"};
  lfs.run = [options](Context& context) { return export_to_lfs(*options, context); };

  Command command;
  command.name = "export";
  command.summary = "Write a version, a training or a server in the format of another tool";
  command.group = "data";
  command.subcommands = {export_compose(), export_kserve(), lfs, export_model_command(), export_mpijob(),
                         export_slurm(),   export_systemd()};
  return command;
}

}  // namespace mlx::cmd
