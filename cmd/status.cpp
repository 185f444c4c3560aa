// mlx status: what differs between pointers and the worktree, which folders still hold another version than their
// pointer names (after a `git switch`), and which pointers have no version yet.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/materialize.h"
#include "registry/versions/checkouts.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"

namespace mlx::cmd {
namespace {

struct StatusOptions {
  std::vector<std::string> paths;
};

enum class Status {
  kClean,
  kModified,
  kBehind,      // the folder is exactly another version
  kMissing,     // not in the worktree
  kNotFetched,  // the content is not in the store
  kErased,      // nobody can read it any more
  kUnreadable,  // what is in its place cannot be a dataset
  kUnresolved,  // git has not merged the pointer
};

const char* name_of(Status status) {
  switch (status) {
    case Status::kClean:
      return "clean";
    case Status::kModified:
      return "modified";
    case Status::kBehind:
      return "behind";
    case Status::kMissing:
      return "missing";
    case Status::kNotFetched:
      return "not fetched";
    case Status::kErased:
      return "erased";
    case Status::kUnreadable:
      return "unreadable";
    case Status::kUnresolved:
      return "unresolved";
  }
  return "";
}

struct State {
  registry::Pointer pointer;
  std::optional<registry::Version> version;
  Status status = Status::kClean;
  std::string why;                         // it is unreadable
  store::Difference difference;            // of the folder from the pointer
  std::optional<Digest> checked_out;       // the version it was made as, if known and not the pointer's
  std::optional<store::Difference> since;  // of the folder from `checked_out`, if known
  bool drifted() const { return checked_out.has_value(); }
};

// What the folder was made as, where that is not what the pointer names: as noted, or, where nothing was, the version
// of this artifact that the folder is exactly.
void look_for_drift(registry::Repository& repository, State& state, const std::string& folder,
                    std::optional<Digest> noted, Context& context) {
  if (noted == state.pointer.digest) return;
  const std::vector<store::Entry> now =
      store::scan(folder, &repository.stat_cache(), repository.pool(), context.progress());
  const Digest id = store::summarize(now).id;
  if (!noted && id != state.pointer.digest && registry::version_of(repository, state.pointer.artifact, id)) noted = id;
  if (!noted) return;
  state.checked_out = noted;
  if (id == *noted)
    state.since.emplace();
  else if (repository.store().has(store::ObjectKind::kManifest, *noted))
    state.since = store::compare(repository.store().entries(*noted), now);
  if (state.since && state.since->empty() && state.status == Status::kModified) state.status = Status::kBehind;
}

State compare_with_folder(registry::Repository& repository, const registry::Pointer& pointer,
                          const std::optional<Digest>& noted, Context& context) {
  State state{pointer, registry::version_of(repository, pointer.artifact, pointer.digest), Status::kClean, {}, {}, {}};
  if (registry::erasure_of_absent(repository, pointer.digest)) {
    state.status = Status::kErased;
    return state;
  }
  const bool here = repository.store().has(store::ObjectKind::kManifest, pointer.digest);
  if (!here) state.status = Status::kNotFetched;
  if (pointer.kind == registry::ArtifactKind::kModel) return state;
  const std::string full = join_path(repository.root(), pointer.artifact);
  if (!path_exists(full)) {
    if (here) state.status = Status::kMissing;
    return state;
  }
  require_own_place(repository.root(), pointer.artifact);
  const std::optional<store::Difference> changes = store::changes_since(
      pointer.digest, repository.store(), full, &repository.stat_cache(), repository.pool(), context.progress());
  if (changes && changes->empty()) return state;
  if (changes && here) {
    state.difference = *changes;
    state.status = Status::kModified;
  }
  look_for_drift(repository, state, full, noted, context);
  return state;
}

// One dataset that cannot be looked at says nothing of the others.
State look_at(registry::Repository& repository, const registry::Pointer& pointer, const std::optional<Digest>& noted,
              Context& context) {
  try {
    return compare_with_folder(repository, pointer, noted, context);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kUsage && error.kind != ErrorKind::kConflict) throw;
    State state;
    state.pointer = pointer;
    state.version = registry::version_of(repository, pointer.artifact, pointer.digest);
    state.status = Status::kUnreadable;
    state.why = error.message;
    return state;
  }
}

std::string name_of(registry::Repository& repository, const std::string& artifact, const Digest& digest) {
  const std::optional<registry::Version> version = registry::version_of(repository, artifact, digest);
  return version ? fmt::format("{} (v{})", digest.brief(), version->number) : digest.brief();
}

std::string what_to_do(const State& state) {
  const std::string name = shell_quoted(state.pointer.artifact);
  switch (state.status) {
    case Status::kBehind:
      return fmt::format("`mlx checkout {}` brings what the pointer names", name);
    case Status::kModified:
      if (!state.drifted()) return fmt::format("`mlx add {0}` stores it, `mlx checkout {0} --force` discards it", name);
      return fmt::format("`mlx add {0}` stores the folder as it is, `mlx checkout {0} --force` discards its changes",
                         name);
    case Status::kErased:
      return fmt::format("its content is gone for good (`mlx show {0}`); `mlx rm --cached {0}` removes the pointer",
                         name);
    case Status::kUnreadable:
      return state.why;
    case Status::kMissing:
      return "`mlx checkout` brings it";
    case Status::kNotFetched:
      return "`mlx pull` brings it";
    case Status::kClean:
    case Status::kUnresolved:
      break;
  }
  const bool uncommitted = !state.version && state.pointer.kind == registry::ArtifactKind::kDataset;
  return uncommitted ? "`mlx commit -m MESSAGE` makes a version" : "";
}

void print(Context& context, const State& state) {
  registry::Repository& repository = context.repository();
  const std::string& artifact = state.pointer.artifact;
  const std::string name = state.version ? state.version->name() : artifact + " (not committed)";
  const std::string status = name_of(state.status);
  context.line(fmt::format("{}  {}  {}", context.bold(name),
                           state.status == Status::kClean ? context.green(status) : context.red(status),
                           files_text(state.pointer.files, state.pointer.size)));
  if (state.drifted()) {
    context.line(fmt::format("    checked out: {}, pointer: {}", name_of(repository, artifact, *state.checked_out),
                             name_of(repository, artifact, state.pointer.digest)));
  }
  const bool against_checkout = state.drifted() && state.since;
  if (against_checkout && !state.since->empty()) context.line("    changed since the checkout:");
  print_difference(context, against_checkout ? *state.since : state.difference, context.verbose() ? SIZE_MAX : 10);
  const std::string next = what_to_do(state);
  if (!next.empty()) context.line(context.dim("    " + next));
}

Json state_json(registry::Repository& repository, const State& state) {
  const registry::Pointer& pointer = state.pointer;
  Json one = {
      {"artifact", pointer.artifact},           {"kind", registry::kind_name(pointer.kind)},
      {"digest", pointer.digest.text()},        {"version", state.version ? Json(state.version->name()) : Json()},
      {"committed", state.version.has_value()}, {"status", name_of(state.status)}};
  one.update(difference_json(state.difference));
  if (!state.why.empty()) one["why"] = state.why;
  one["checked_out"] = Json();
  if (state.drifted()) {
    const std::optional<registry::Version> version =
        registry::version_of(repository, pointer.artifact, *state.checked_out);
    one["checked_out"] = {{"digest", state.checked_out->text()}, {"version", version ? Json(version->name()) : Json()}};
    one["since_checkout"] = state.since ? difference_json(*state.since) : Json();
  }
  return one;
}

// What a pointer's file is about, as far as its place tells.
std::string artifact_at(std::string path) {
  path.resize(path.size() - std::string_view(".mlx").size());
  return path.starts_with("models/") ? path.substr(7) : path;
}

bool is_meant(const std::string& artifact, bool model, const std::string& path, const std::string& inside) {
  return (model && artifact == path) || inside.empty() || artifact == inside || artifact.starts_with(inside + "/") ||
         inside.starts_with(artifact + "/");
}

struct Pointers {
  std::vector<registry::Pointer> whole;
  std::vector<registry::BrokenPointer> unresolved;  // that git has not merged: a state like others
};

// One that is damaged is an error, before anything is said.
Pointers read_pointers(registry::Repository& repository) {
  Pointers all;
  all.whole = registry::all_pointers(repository, all.unresolved);
  for (const registry::BrokenPointer& pointer : all.unresolved) {
    if (pointer.error.kind != ErrorKind::kConflict) throw Error(pointer.error);
  }
  return all;
}

// All pointers, or those that a path names or holds.
Pointers wanted_pointers(const StatusOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  Pointers all = read_pointers(repository);
  if (options.paths.empty()) return all;
  Pointers wanted;
  for (const std::string& path : options.paths) {
    const std::string inside = repository.inside(path, context.folder());
    const std::size_t before = wanted.whole.size() + wanted.unresolved.size();
    for (const registry::Pointer& pointer : all.whole) {
      if (is_meant(pointer.artifact, pointer.kind == registry::ArtifactKind::kModel, path, inside))
        wanted.whole.push_back(pointer);
    }
    for (const registry::BrokenPointer& pointer : all.unresolved) {
      const bool named = inside == pointer.path || is_meant(artifact_at(pointer.path), true, path, inside);
      const auto same = [&](const registry::BrokenPointer& other) { return other.path == pointer.path; };
      if (named && std::ranges::none_of(wanted.unresolved, same)) wanted.unresolved.push_back(pointer);
    }
    if (wanted.whole.size() + wanted.unresolved.size() == before) {
      throw Error(ErrorKind::kNotFound, fmt::format("{}: no dataset and no model has that name or is there", path),
                  "`mlx status` lists all; `mlx add` stores data");
    }
  }
  std::ranges::sort(wanted.whole, {}, &registry::Pointer::artifact);
  wanted.whole.erase(std::unique(wanted.whole.begin(), wanted.whole.end()), wanted.whole.end());
  return wanted;
}

Json unresolved_json(const registry::BrokenPointer& pointer) {
  return {{"artifact", artifact_at(pointer.path)}, {"pointer", pointer.path}, {"status", name_of(Status::kUnresolved)},
          {"why", pointer.error.message},          {"version", Json()},       {"digest", Json()}};
}

void print_unresolved(Context& context, const std::vector<registry::BrokenPointer>& unresolved) {
  for (const registry::BrokenPointer& pointer : unresolved) {
    context.line(fmt::format("{}  {}", context.bold(pointer.path), context.red(name_of(Status::kUnresolved))));
    context.line(context.dim("    " + pointer.error.hint));
  }
}

int run_status(const StatusOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const std::map<std::string, Digest> noted = registry::checked_out(repository);
  const Pointers pointers = wanted_pointers(options, context);
  Json list = Json::array();
  for (const registry::Pointer& pointer : pointers.whole) {
    const auto at = noted.find(pointer.artifact);
    const State state =
        look_at(repository, pointer, at == noted.end() ? std::nullopt : std::optional(at->second), context);
    print(context, state);
    if (context.wants_json()) list.push_back(state_json(repository, state));
    if (state.status == Status::kClean && pointer.kind == registry::ArtifactKind::kDataset &&
        (at == noted.end() || at->second != pointer.digest)) {
      registry::note_checked_out(repository, pointer.artifact, pointer.digest);
    }
  }
  print_unresolved(context, pointers.unresolved);
  for (const registry::BrokenPointer& pointer : pointers.unresolved) list.push_back(unresolved_json(pointer));
  if (pointers.whole.empty() && pointers.unresolved.empty()) {
    context.line(registry::artifact_names(repository).empty()
                     ? "no data and no models yet: `mlx add FOLDER` stores data"
                     : "no data and no models here: `mlx ls` lists what is stored, `mlx checkout NAME` brings it");
  }
  if (context.wants_json())
    context.json({{"schema", "mlx.status/1"}, {"root", repository.root()}, {"artifacts", list}});
  return 0;
}

}  // namespace

Command add_status() {
  auto options = std::make_shared<StatusOptions>();
  Command command;
  command.name = "status";
  command.summary = "Show what differs from the pointers, and what has no version yet";
  command.group = "versions";
  command.options = {
      arguments("PATH", options->paths, "Only the datasets and models of this name, or below this folder",
                Complete::kFile, false),
  };
  command.verbose = "List every file that differs";
  command.examples = {"mlx status", "mlx status -v data/fashion", "mlx status --json"};
  command.run = [options](Context& context) { return run_status(*options, context); };
  return command;
}

}  // namespace mlx::cmd
