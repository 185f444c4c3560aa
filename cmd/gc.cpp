// mlx gc: removes what nothing refers to; without --yes it only says what it would remove.
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/cli.h"
#include "registry/maintenance/gc.h"
#include "store/worktree/file_cache.h"

namespace mlx::cmd {
namespace {

struct GcOptions {
  std::string grace = "14d", remote;
  bool yes = false;
};

// "14d", "12h", "30m", "45s", "0" in seconds.
std::int64_t seconds_of(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const std::int64_t factor = unit == "d" ? 86400 : unit == "h" ? 3600 : unit == "m" ? 60 : unit == "s" ? 1 : 0;
  const bool bare_zero = unit.empty() && number == 0;
  if (error != std::errc() || number < 0 || number > 100'000'000 || (factor == 0 && !bare_zero)) {
    throw Error(ErrorKind::kUsage, fmt::format("--grace: '{}' is not a duration", text),
                "write a number and d, h, m or s, such as 14d, or 0");
  }
  return number * factor;
}

void print(const store::GcReport& report, const store::CacheUse& cache, bool done, Context& context) {
  if (report.removed_packs + report.rewritten_packs == 0) {
    context.line(
        fmt::format("nothing to remove: {}, {}", counted(report.objects, "object"), format_bytes(report.bytes)));
  } else {
    context.line(fmt::format("{} {} of {}, {} of {}: {} removed, {} written anew", done ? "removed" : "would remove",
                             report.removed_objects, counted(report.objects, "object"),
                             context.bold(format_bytes(report.freed_bytes)), format_bytes(report.bytes),
                             counted(report.removed_packs, "pack"), report.rewritten_packs));
  }
  if (report.young_packs > 0) {
    context.line(fmt::format("within the grace period: {}, {}", counted(report.young_packs, "pack"),
                             format_bytes(report.young_bytes)));
  }
  if (report.pinned_packs > 0) {
    context.line(fmt::format("in use by another process: {}, {}", counted(report.pinned_packs, "pack"),
                             format_bytes(report.pinned_bytes)));
  }
  if (cache.files > 0) {
    context.line(fmt::format("{} from the cache of whole files: {}, {}", done ? "removed" : "would remove",
                             counted(cache.files, "file"), format_bytes(cache.bytes)));
  }
  if (!done && report.removed_packs + report.rewritten_packs + cache.files > 0) {
    context.say("hint: nothing was changed; `mlx gc --yes` does it");
  }
}

int run_gc(const GcOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const bool remove = options.yes && !context.dry_run();
  const store::GcOptions gc{.grace_seconds = seconds_of(options.grace), .remove = remove};
  store::GcReport report;
  store::CacheUse cache;  // files that no checkout shares; they can be made again, so no grace period applies
  std::string remote;
  if (options.remote.empty()) {
    cache = store::evict_files(repository.mlx_folder(), repository.disk(), false, !remove,
                               repository.interruption());  // first: it makes room
    report = registry::collect_garbage(repository, gc, context.progress());
  } else {
    const registry::RemoteConfig config = registry::pick_remote(repository.root(), options.remote);
    remote = config.name;
    report = registry::collect_garbage_of(repository, config, gc, context.progress());
  }
  print(report, cache, remove, context);
  if (context.wants_json()) {
    context.json({{"schema", "mlx.gc/1"},
                  {"dry_run", !remove},
                  {"remote", remote.empty() ? Json() : Json(remote)},
                  {"grace_seconds", gc.grace_seconds},
                  {"packs", report.packs},
                  {"objects", report.objects},
                  {"bytes", report.bytes},
                  {"removed_packs", report.removed_packs},
                  {"rewritten_packs", report.rewritten_packs},
                  {"removed_objects", report.removed_objects},
                  {"freed_bytes", report.freed_bytes},
                  {"young_packs", report.young_packs},
                  {"young_bytes", report.young_bytes},
                  {"pinned_packs", report.pinned_packs},
                  {"pinned_bytes", report.pinned_bytes},
                  {"left_bytes", report.left_bytes},
                  {"evicted_files", cache.files},
                  {"evicted_bytes", cache.bytes}});
  }
  return 0;
}

}  // namespace

Command add_gc() {
  auto options = std::make_shared<GcOptions>();
  Command command;
  command.name = "gc";
  command.summary = "Remove stored content that nothing refers to";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      flag("--yes", options->yes, "Remove it; without --yes only say what would be removed"),
      option("--grace", "TIME", options->grace, "Keep what was stored within this time: 14d, 12h, 30m, 0"),
      option("--remote", "NAME", options->remote, "Work on a remote in a folder instead", Complete::kRemote),
  };
  command.examples = {"mlx gc", "mlx gc --yes", "mlx gc --yes --grace 2d", "mlx gc --yes --remote origin"};
  command.run = [options](Context& context) { return run_gc(*options, context); };
  return command;
}

}  // namespace mlx::cmd
