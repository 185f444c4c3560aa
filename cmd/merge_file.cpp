// mlx merge-file: merges the versions of two pointers into one version. git runs it as the merge driver of
// *.mlx in merge, rebase and cherry-pick; its exit code says whether the pointer is left in conflict.
#include <fcntl.h>
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/describe.h"
#include "cmd/unlock.h"
#include "registry/interop/pointer_merge.h"
#include "registry/keys/keys.h"
#include "registry/sync/fetch_on_demand.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kShownConflicts = 20;
constexpr std::size_t kMaxPointer = 64 << 10;

struct MergeFileOptions {
  std::string current, base, other, path;
  bool ours = false, theirs = false;
};

struct Texts {
  std::string ours, base, theirs;
};

std::string read_side(const std::string& path, Context& context) {
  const std::string full = join_path(context.folder(), path);
  std::string text(kMaxPointer + 1, '\0');
  text.resize(read_at(open_file(full, O_RDONLY).get(), text.data(), text.size(), 0, full));
  if (text.size() > kMaxPointer) fail(ErrorKind::kCorrupt, "{}:1: too large for a pointer", path);
  return text;
}

// git runs a driver in the root of the worktree, and the folder of the path may not exist yet.
std::string start_of(const MergeFileOptions& options, Context& context) {
  std::string folder =
      parent_path(absolute_path(join_path(context.folder(), options.path.empty() ? options.current : options.path)));
  while (!is_folder(folder) && folder != "/") folder = parent_path(folder);
  return folder;
}

registry::PointerMerge merge(const MergeFileOptions& options, const Texts& texts, registry::Repository& repository,
                             bool dry_run) {
  const std::string name = options.path.empty() ? options.current : options.path;
  const registry::Pointer ours = registry::decode_pointer(texts.ours, name + " (ours)");
  const registry::Pointer theirs = registry::decode_pointer(texts.theirs, name + " (theirs)");
  std::optional<registry::Pointer> base;  // empty if both sides added it
  if (!texts.base.empty()) base = registry::decode_pointer(texts.base, name + " (base)");
  const store::Favour favour = options.ours     ? store::Favour::kOurs
                               : options.theirs ? store::Favour::kTheirs
                                                : store::Favour::kNone;
  return registry::merge_pointers(repository, base, ours, theirs, favour, dry_run);
}

std::string with_markers(const Texts& texts) {
  return "<<<<<<< ours\n" + texts.ours + "=======\n" + texts.theirs + ">>>>>>> theirs\n";
}

void print_conflicts(const registry::PointerMerge& merged, Context& context) {
  const std::string artifact = printable(merged.pointer.artifact);
  for (std::size_t i = 0; i < merged.conflicts.size(); ++i) {
    if (i == kShownConflicts) {
      context.say(fmt::format("conflict: {}: and {} more", artifact, merged.conflicts.size() - i));
      return;
    }
    const store::MergeConflict& conflict = merged.conflicts[i];
    context.say(conflict.path.empty()
                    ? fmt::format("conflict: {}: {}", artifact, conflict.what)
                    : fmt::format("conflict: {}: {}: {}", artifact, printable(conflict.path), conflict.what));
  }
}

Json merge_json(const registry::PointerMerge& merged, bool dry_run) {
  Json conflicts = Json::array();
  for (const store::MergeConflict& conflict : merged.conflicts) {
    store::Entry entry;
    entry.path = conflict.path;
    const Json named = entry_json(entry);
    Json one = {{"path", named["path"]}, {"what", conflict.what}};
    if (named.contains("path_hex")) one["path_hex"] = named["path_hex"];
    conflicts.push_back(std::move(one));
  }
  Json json = {{"schema", "mlx.merge-file/1"},
               {"artifact", merged.pointer.artifact},
               {"status", merged.conflicts.empty() ? "merged" : "conflict"},
               {"from_ours", merged.from_ours},
               {"from_theirs", merged.from_theirs},
               {"conflicts", conflicts},
               {"dry_run", dry_run}};
  if (merged.conflicts.empty()) {
    json["digest"] = merged.pointer.digest.text();
    json["files"] = merged.pointer.files;
    json["bytes"] = merged.pointer.size;
  }
  return json;
}

int run_merge_file(const MergeFileOptions& options, Context& context) {
  if (options.ours && options.theirs)
    throw Error(ErrorKind::kUsage, "merge-file: --ours and --theirs exclude each other", "give one of them, or none");
  const Texts texts = {read_side(options.current, context), read_side(options.base, context),
                       read_side(options.other, context)};
  const std::unique_ptr<registry::Repository> opened = open_repository(start_of(options, context), context);
  registry::Repository& repository = *opened;
  const std::string current = join_path(context.folder(), options.current);
  registry::PointerMerge merged;
  try {
    merged = merge(options, texts, repository, context.dry_run());
  } catch (const Error& error) {
    // Marks the pointer as unmerged, because git leaves the file as it is.
    if (error.kind == ErrorKind::kNotFound && !context.dry_run()) write_file_atomically(current, with_markers(texts));
    throw;
  }
  const bool clean = merged.conflicts.empty();
  const std::string text = clean ? registry::encode_pointer(merged.pointer) : with_markers(texts);
  if (!context.dry_run() && text != texts.ours) write_file_atomically(current, text);
  print_conflicts(merged, context);
  if (clean && !context.dry_run() && merged.pointer.kind == registry::ArtifactKind::kDataset &&
      !registry::fetch_content_of(repository, merged.pointer.digest, context.progress()))
    context.say(
        fmt::format("{}: not all of its content is here: `mlx pull` fetches it", printable(merged.pointer.artifact)));
  if (clean) {
    context.line(fmt::format("{}  {}  {}  {}: {} from ours, {} from theirs",
                             context.bold(printable(merged.pointer.artifact)),
                             files_text(merged.pointer.files, merged.pointer.size), merged.pointer.digest.brief(),
                             context.dry_run() ? "would be merged" : "merged", merged.from_ours, merged.from_theirs));
  }
  if (context.wants_json()) context.json(merge_json(merged, context.dry_run()));
  return clean ? 0 : static_cast<int>(ErrorKind::kNo);
}

}  // namespace

Command add_merge_file() {
  auto options = std::make_shared<MergeFileOptions>();
  Command command;
  command.name = "merge-file";
  command.summary = "Merge the versions that two pointers name (git's merge driver)";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      argument("CURRENT", options->current, "Our pointer; the result replaces it", Complete::kFile),
      argument("BASE", options->base, "The pointer that both come from; empty if both sides added it", Complete::kFile),
      argument("OTHER", options->other, "Their pointer", Complete::kFile),
      option("--path", "PATH", options->path, "The pointer's path in the worktree (default: CURRENT)", Complete::kFile),
      flag("--ours", options->ours, "Take our side of what both changed"),
      flag("--theirs", options->theirs, "Take their side of what both changed"),
  };
  command.examples = {"git config merge.mlx.driver 'mlx merge-file --path %P %A %O %B'",
                      "mlx merge-file --theirs --path data/fashion.mlx ours.mlx base.mlx theirs.mlx"};
  command.run = [options](Context& context) { return run_merge_file(*options, context); };
  return command;
}

}  // namespace mlx::cmd
