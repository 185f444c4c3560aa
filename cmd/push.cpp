// mlx push: sends operations and the content that they name to a remote; with --check only says whether what the
// pointers name is on one, also for git's pre-push hook.
#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/cli.h"
#include "cmd/sync_text.h"
#include "registry/keys/trust.h"
#include "registry/record/judge.h"
#include "registry/record/lost.h"
#include "registry/record/people.h"
#include "registry/repository.h"
#include "registry/sync/push_check.h"
#include "registry/sync/repair_remote.h"
#include "registry/sync/sync.h"
#include "registry/versions/domains.h"

namespace mlx::cmd {
namespace {

struct PushOptions {
  std::string remote;
  bool check = false, hook = false, repair = false, without_missing = false;
};

void say_mended(const registry::MendedHeads& heads, const registry::RemoteConfig& remote, Context& context) {
  context.line(fmt::format("mended {}: its heads were lost, and are worked out from {}", remote.name,
                           counted(heads.operations, "operation")));
  if (heads.unknown > 0) {
    context.say(
        fmt::format("{} there {} not in this clone's history, so the heads leave them out: a colleague's push brings "
                    "theirs back, what was refused here stays out",
                    counted(heads.unknown, "operation"), heads.unknown == 1 ? "is" : "are"));
  }
}

// Before the push, so that the push carries it to others.
Json give_up_missing(const PushOptions& options, const registry::RemoteConfig& remote, Context& context) {
  Json list = Json::array();
  if (!options.without_missing) return list;
  registry::Repository& repository = context.repository();
  std::vector<Digest> missing;
  for (const registry::Version& version :
       registry::missing_versions(repository, remote, options.repair, context.progress())) {
    missing.push_back(version.digest);
    list.push_back({{"name", version.name()}, {"digest", version.digest.text()}});
    context.line(fmt::format("{}  {}  its content {} given up as lost", context.bold(version.name()),
                             version.digest.brief(), context.dry_run() ? "would be" : "is"));
  }
  if (!missing.empty() && !context.dry_run()) registry::record_lost(repository, missing);
  return list;
}

int push(const PushOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::RemoteConfig remote = chosen_remote(options.remote, context);
  const bool dry_run = context.dry_run();
  // Also if nothing was recorded since the name was set.
  if (!dry_run && registry::may_record(repository, "actor.describe")) registry::introduce(repository);
  std::vector<std::string> mended;
  const std::optional<registry::MendedHeads> heads =
      options.repair ? registry::mend_heads(repository, remote, mended) : std::nullopt;
  if (heads) say_mended(*heads, remote, context);
  const Json given_up = give_up_missing(options, remote, context);
  const registry::SyncResult result = dry_run ? registry::push_dry_run(repository, remote, options.without_missing)
                                              : registry::push(repository, remote, context.progress(), options.repair);
  mended.insert(mended.end(), result.mended.begin(), result.mended.end());
  for (const std::string& name : mended)
    context.line(fmt::format("mended {}: {}, of which a copy was missing or damaged", remote.name, name));
  for (const std::string& path : result.set_aside) context.line("set aside: " + path);
  if (result.saved > 0)
    context.line(fmt::format("mended {}: {} saved from damaged packs", remote.name, counted(result.saved, "object")));
  context.line(sync_text(dry_run ? "would push to" : "pushed to", remote.name, result));
  if (context.wants_json()) {
    Json json = sync_json("mlx.push/1", remote.name, result);
    json["dry_run"] = dry_run;
    json["saved_objects"] = result.saved;
    json["mended_heads"] = heads.has_value();
    json["set_aside"] = result.set_aside;
    json["mended_files"] = mended;
    json["given_up"] = given_up;
    context.json(json);
  }
  return 0;
}

std::string all_of_stdin() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// Exit 1 if the data of a pointer is on no remote.
int check(const PushOptions& options, Context& context) {
  std::vector<registry::Pointer> pointers;
  // A worktree without .mlx may push what names no data.
  if (options.hook) pointers = registry::pointers_in_push(context.folder(), all_of_stdin());
  if (options.hook && pointers.empty() && !context.has_repository()) return 0;
  registry::Repository& repository = context.repository();
  if (!options.hook) pointers = registry::all_pointers(repository);
  std::erase_if(pointers, [&](const registry::Pointer& pointer) {
    if (registry::erasure_of_absent(repository, pointer.digest)) return true;  // nothing of it is to be anywhere
    return registry::loss_of(repository, pointer.digest).has_value();          // nor can it be, and everybody knows
  });
  std::vector<registry::RemoteConfig> remotes = registry::remotes(repository.root());
  if (!options.hook && !options.remote.empty()) remotes = {chosen_remote(options.remote, context)};
  const registry::PushCheck found =
      pointers.empty() ? registry::PushCheck() : registry::on_no_remote(repository, pointers, remotes);
  Json list = Json::array(), broken = Json::array();
  const auto print = [&](const std::string& line) {
    options.hook ? context.say("mlx: " + line) : context.line(line);  // git shows what its hooks say on stderr
  };
  for (const auto& [remote, operations] : found.broken) {
    broken.push_back({{"remote", remote}, {"lost_operations", operations}});
    print(fmt::format("'{}' has lost {}: nobody can clone it", remote, counted(operations, "operation")));
  }
  for (const registry::Pointer& pointer : found.lacking) {
    list.push_back({{"artifact", pointer.artifact}, {"digest", pointer.digest.text()}});
    print(fmt::format("{}  {}  is on no remote{}", pointer.artifact, pointer.digest.brief(),
                      !found.broken.empty()  ? " that can be cloned"
                      : found.silent.empty() ? ""
                                             : " that could be asked"));
  }
  if (!found.lacking.empty()) {
    // With no answer at all it is the question that failed.
    if (found.answered == 0 && !found.silent.empty()) throw Error(found.silent.front().why);
    for (const auto& [remote, why] : found.silent)
      context.say(fmt::format("'{}' did not answer: {}", remote, why.message));
    context.say(remotes.empty() ? "there is no remote: `mlx remote add origin URL`, then `mlx push`"
                                : "`mlx push` sends it; `mlx push --repair` sends again what a remote has lost");
  } else if (!options.hook) {
    context.line(fmt::format("the data of {} is on a remote", counted(pointers.size(), "pointer")));
  }
  if (context.wants_json()) {
    Json silent = Json::array();
    for (const auto& [remote, why] : found.silent) silent.push_back({{"remote", remote}, {"why", why.message}});
    context.json({{"schema", "mlx.push-check/1"},
                  {"pointers", pointers.size()},
                  {"lacking", list},
                  {"silent", silent},
                  {"broken", broken}});
  }
  return found.lacking.empty() ? 0 : 1;
}

int run_push(const PushOptions& options, Context& context) {
  if (options.hook && !options.check) {
    throw Error(ErrorKind::kUsage, "--hook: only with --check", "git's pre-push hook runs `mlx push --check --hook`");
  }
  if (options.repair && (options.check || context.dry_run())) {
    throw Error(ErrorKind::kUsage, "--repair: not with --check or -n",
                "`mlx push --check` and `mlx push -n` say what is missing, and change nothing");
  }
  if (options.without_missing && options.check)
    throw Error(ErrorKind::kUsage, "--without-missing: not with --check",
                "`mlx push -n --without-missing` says what would be recorded as lost");
  return options.check ? check(options, context) : push(options, context);
}

}  // namespace

Command add_push() {
  auto options = std::make_shared<PushOptions>();
  Command command;
  command.name = "push";
  command.summary = "Send versions, runs and their content to a remote";
  command.group = "remotes";
  command.dry_run = true;
  command.options = {
      optional_argument("REMOTE", options->remote, "The remote (default: `remote.default`, `origin`, or the only one)",
                        Complete::kRemote),
      flag("--check", options->check,
           "Send nothing; say whether the data of every pointer is on a remote (exit 1: no)"),
      flag("--repair", options->repair, "Check everything that should be there, and send again what was lost"),
      flag("--without-missing", options->without_missing,
           "Record content that is neither here nor on the remote as lost, and push without it"),
      flag("--hook", options->hook, "With --check: check the commits that git gives to its pre-push hook on stdin"),
  };
  // git passes the name and the URL of its own remote to hooks; neither is one of ours.
  command.examples = {"mlx push", "mlx push -n", "mlx push backup", "mlx push --check", "mlx push --repair"};
  command.run = [options](Context& context) { return run_push(*options, context); };
  return command;
}

}  // namespace mlx::cmd
