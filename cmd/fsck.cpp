// mlx fsck: reads and verifies everything that is stored, says which versions damage hits, and mends what it can:
// --repair from the worktree and from remotes, --rebuild the database from the operations.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/unlock.h"
#include "registry/keys/keys.h"
#include "registry/maintenance/check_metadata.h"
#include "registry/maintenance/damaged_versions.h"
#include "registry/maintenance/rebuild.h"
#include "registry/maintenance/restore.h"
#include "registry/record/lost.h"
#include "registry/settings/own_folder.h"
#include "registry/sync/key_sync.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/domains.h"
#include "store/pack/layout.h"

namespace mlx::cmd {
namespace {

struct FsckOptions {
  bool rebuild = false, repair = false;
  std::string remote;
};

constexpr std::size_t kFilesShown = 20;

struct Findings {
  store::FsckReport store;
  std::vector<registry::DamagedFile> hits;
  registry::MetadataCheck metadata;
  std::vector<std::string> own_files;  // of this clone alone
  std::vector<std::string> lost;       // versions recorded as lost: no problem, everybody is told
  std::optional<Error> locked_out;     // which versions are hit could not be seen without keys

  std::size_t problems() const {
    return store.problems.size() + metadata.problems.size() + hits.size() + own_files.size();
  }
};

std::string text_of(const registry::DamagedFile& hit) {
  return hit.path.empty() ? fmt::format("{}: {}", hit.name, hit.why)
                          : fmt::format("{}: {} is {}", hit.name, printable(hit.path), hit.why);
}

// A line for each version that is not here since it was given up.
std::vector<std::string> lost_texts(registry::Repository& repository) {
  std::vector<std::string> texts;
  const registry::Losses lost = registry::lost_versions(repository);
  if (lost.empty()) return texts;
  registry::visit_versions(repository, [&](const registry::Version& version) {
    const auto loss = lost.find(version.digest);
    if (loss == lost.end() || repository.store().has(store::ObjectKind::kManifest, version.digest)) return;
    texts.push_back(fmt::format("{}: {}", version.name(), registry::loss_text(repository, loss->second)));
  });
  return texts;
}

Findings examine(registry::Repository& repository, Context& context) {
  Findings findings;
  findings.own_files = registry::check_own_files(repository, false);
  findings.store = repository.store().fsck(context.progress());
  try {
    findings.metadata = registry::check_metadata(repository);
    findings.hits = registry::damaged_versions(repository, findings.store, context.progress());
    findings.lost = lost_texts(repository);
  } catch (const Error& error) {
    const bool locked = error.kind == ErrorKind::kRefused && findings.store.locked > 0;  // said with the findings
    const bool database = error.kind == ErrorKind::kCorrupt && findings.metadata.rebuild;
    if (!locked && !database) throw;
    if (locked) findings.locked_out = error;
  }
  return findings;
}

// One line a problem; of many files of one version the first ones.
void print(const Findings& findings, Context& context) {
  for (const auto* problems : {&findings.store.problems, &findings.metadata.problems, &findings.own_files}) {
    for (const std::string& problem : *problems) context.line(context.red("problem: ") + problem);
  }
  std::string name;
  std::size_t shown = 0, more = 0;
  const auto end_version = [&] {
    if (more > 0) context.line(fmt::format("         {}: and {} more", name, counted(more, "file")));
  };
  for (const registry::DamagedFile& hit : findings.hits) {
    if (hit.name != name) {
      end_version();
      name = hit.name;
      shown = more = 0;
    }
    if (++shown > kFilesShown) {
      more += 1;
      continue;
    }
    context.line(context.red("problem: ") + text_of(hit));
  }
  end_version();
}

std::vector<registry::RemoteConfig> remotes_to_ask(registry::Repository& repository, const FsckOptions& options) {
  if (!options.remote.empty()) return {registry::pick_remote(repository.root(), options.remote)};
  return registry::remotes(repository.root());
}

struct Repaired {
  store::RepairReport store;
  registry::Restored restored;
};

// Sets damaged packs aside, and stores lost objects again. The projection comes first: it says what is lost.
Repaired repair(const FsckOptions& options, const Findings& findings, registry::Repository& repository,
                Context& context) {
  if (findings.locked_out) throw *findings.locked_out;  // losses must be known before anything is set aside
  Repaired done;
  const std::vector<registry::RemoteConfig> remotes = remotes_to_ask(repository, options);  // before anything changes
  (void)registry::check_own_files(repository, true);
  done.store = store::set_damage_aside(repository.store(), findings.store, context.progress());
  const std::vector<registry::DamagedFile> hits =
      registry::damaged_versions(repository, findings.store, context.progress());
  std::vector<registry::DamagedFile> all = findings.hits;
  all.insert(all.end(), hits.begin(), hits.end());
  done.restored = registry::restore(repository, all, done.store.lost, remotes, context.progress());
  for (const std::string& path : done.store.set_aside) context.line("set aside: " + path);
  context.line(fmt::format("repaired: {} saved from damaged packs, {} from the worktree, {} from remotes",
                           counted(done.store.saved_objects, "object"), counted(done.restored.files, "file"),
                           counted(done.restored.objects, "object")));
  for (const std::string& why : done.restored.unreached) context.progress().warn(why);
  return done;
}

void say_what_repair_would_do(const Findings& findings, Context& context) {
  for (const Digest& pack : findings.store.damaged_packs) {
    context.line(fmt::format("would set aside: {}.pack, without {}", pack.hex(),
                             counted(static_cast<std::uint64_t>(std::ranges::count(findings.store.damaged_objects, pack,
                                                                                   &store::DamagedObject::pack)),
                                     "damaged object")));
  }
  if (findings.metadata.rebuild) context.line("would rebuild meta.db from the operations");
}

Json hits_json(const std::vector<registry::DamagedFile>& hits) {
  Json list = Json::array();
  for (const registry::DamagedFile& hit : hits) {
    list.push_back({{"name", hit.name},
                    {"digest", hit.manifest.text()},
                    {"path", hit.path.empty() ? Json() : Json(hit.path)},
                    {"content", hit.path.empty() ? Json() : Json(hit.content.text())},
                    {"why", hit.why}});
  }
  return list;
}

std::vector<std::string> all_problems(const Findings& findings) {
  std::vector<std::string> all = findings.store.problems;
  all.insert(all.end(), findings.metadata.problems.begin(), findings.metadata.problems.end());
  all.insert(all.end(), findings.own_files.begin(), findings.own_files.end());
  for (const registry::DamagedFile& hit : findings.hits) all.push_back(text_of(hit));
  return all;
}

// Without them nothing that is encrypted can be looked at.
// They are part of what was lost then, where the store's layout says that it is encrypted.
bool are_keys_missing(registry::Repository& repository) {
  return !repository.keys().exist() && repository.store().encrypted();
}

void require_keys(registry::Repository& repository) {
  if (!are_keys_missing(repository)) return;
  throw Error(
      ErrorKind::kCorrupt,
      fmt::format("{}/keys and its copy are missing: what is encrypted here cannot be checked",
                  repository.mlx_folder()),
      "`mlx fsck --repair` takes them from an encrypted remote; if none has them, restore a backup of that file");
}

void mend_keys(const FsckOptions& options, registry::Repository& repository, Context& context) {
  if (repository.keys().mend()) context.line("written again: " + join_path(repository.mlx_folder(), "keys"));
  const bool missing = are_keys_missing(repository);
  if (!missing && !repository.keys().damaged()) return;
  for (const registry::RemoteConfig& remote : remotes_to_ask(repository, options)) {
    try {
      if (!registry::mend_keys(repository, remote)) continue;
      context.line(fmt::format("the keys of this clone were {}: replaced by those of '{}'",
                               missing ? "missing" : "damaged", remote.name));
      return;
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kInterrupted) throw;
      context.progress().warn(fmt::format("'{}': {}", remote.name, error.message));
    }
  }
  if (!repository.store().encrypted()) return;  // the rest can be looked at all the same
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}/keys: is {}, and no remote that was asked has these keys", repository.mlx_folder(),
                          missing ? "missing" : "damaged"),
              "restore a backup of that file: without it nothing that is encrypted here can be read");
}

int run_fsck(const FsckOptions& options, Context& context) {
  if (!options.remote.empty() && !options.repair) {
    throw Error(ErrorKind::kUsage, "--remote: only with --repair",
                fmt::format("`mlx push --repair {}` verifies and repairs a remote", shell_quoted(options.remote)));
  }
  const bool change = !context.dry_run();
  std::unique_ptr<registry::Repository> repository = open_repository(context.folder(), context);
  const auto rebuild = [&] {
    registry::require_no_stranger(repository->root(), context.environment());
    const std::string root = repository->root();
    const store::StoreOptions options_of_store = repository->store_options();
    repository.reset();  // its database may be set aside
    registry::rebuild_database(root, context.disk(), context.pool(), context.progress(), options_of_store);
    context.line("meta.db rebuilt from the operations");
    repository = open_repository(root, context);
  };
  if (options.repair && change) {
    // Without it nothing else can be looked at.
    const std::string mlx = repository->mlx_folder();
    if (store::repair_layout(mlx, repository->disk(), repository->keys().exist()))
      context.line("written again: " + join_path(mlx, "packs/FORMAT"));
  }
  if (options.rebuild && change) rebuild();
  if (options.repair && change) mend_keys(options, *repository, context);
  require_keys(*repository);
  Findings findings = examine(*repository, context);
  const std::size_t found = findings.problems();
  std::optional<Repaired> repaired;
  if (options.repair && found > 0) {
    print(findings, context);
    if (change) {
      if (findings.metadata.rebuild) rebuild();
      repaired = repair(options, findings, *repository, context);
      repository->store().reload();
      findings = examine(*repository, context);
    } else {
      say_what_repair_would_do(findings, context);
    }
  }
  if (!options.repair || repaired) print(findings, context);
  for (const std::string& text : findings.lost) context.line("lost: " + printable(text));
  const std::size_t left = findings.problems();
  context.line(fmt::format("{}, {}, {} verified: {}", counted(findings.store.packs, "pack"),
                           counted(findings.store.objects, "object"), format_bytes(findings.store.bytes),
                           left > 0              ? context.red(counted(left, "problem"))
                           : findings.locked_out ? "whole, as far as can be checked without keys"
                                                 : context.green("all whole")));
  if (findings.store.locked > 0) {
    context.line(fmt::format("{} of them are encrypted and there is no key for them: erased, or not unlocked",
                             findings.store.locked));
  }
  if (left > 0 && !options.repair) {
    context.say("hint: `mlx fsck --repair` restores what the worktree or a remote still has");
  } else if (left > 0 && repaired) {
    context.say(repaired->restored.unreached.empty()
                    ? "hint: no worktree file and no remote that was asked has this; a backup may have it"
                    : "hint: no worktree file has this; run it again when the remote can be reached");
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.fsck/1"},
                  {"packs", findings.store.packs},
                  {"objects", findings.store.objects},
                  {"bytes", findings.store.bytes},
                  {"locked", findings.store.locked},
                  {"problems", all_problems(findings)},
                  {"versions", hits_json(findings.hits)},
                  {"lost", findings.lost},
                  {"rebuilt", options.rebuild && change},
                  {"repaired", repaired ? Json{{"problems", found},
                                               {"saved_objects", repaired->store.saved_objects},
                                               {"restored_files", repaired->restored.files},
                                               {"restored_objects", repaired->restored.objects},
                                               {"set_aside", repaired->store.set_aside},
                                               {"unreached", repaired->restored.unreached}}
                                        : Json()}});
  }
  return left == 0 ? 0 : static_cast<int>(ErrorKind::kCorrupt);
}

}  // namespace

Command add_fsck() {
  auto options = std::make_shared<FsckOptions>();
  Command command;
  command.name = "fsck";
  command.summary = "Verify everything that is stored";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      flag("--repair", options->repair, "Set damaged packs aside, and restore what the worktree or remotes have"),
      option("--remote", "NAME", options->remote, "With --repair: ask this remote only", Complete::kRemote),
      flag("--rebuild", options->rebuild, "First make the database again from the operations"),
  };
  command.examples = {"mlx fsck", "mlx fsck --repair", "mlx fsck --rebuild"};
  command.run = [options](Context& context) { return run_fsck(*options, context); };
  return command;
}

}  // namespace mlx::cmd
