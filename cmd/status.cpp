// mlx status: what differs between pointers and the worktree, and which pointers have no version yet.
#include <fmt/format.h>

#include <memory>

#include "base/json.h"
#include "base/path.h"
#include "cmd/describe.h"
#include "registry/pointers.h"

namespace mlx::cmd {
namespace {

struct State {
  registry::Pointer pointer;
  std::optional<registry::Version> version;
  std::string status;  // "clean", "modified", "missing" (not in the worktree), "not fetched" (content not in the store)
  store::Difference difference;
};

State look_at(registry::Repository& repository, const registry::Pointer& pointer, Context& context) {
  State state{pointer, registry::version_of(repository, pointer.artifact, pointer.digest), "clean", {}};
  const bool here = repository.store().has(store::ObjectKind::kManifest, pointer.digest);
  if (!here) state.status = "not fetched";
  if (pointer.kind == registry::ArtifactKind::kModel) return state;
  const std::string full = join_path(repository.root(), pointer.artifact);
  if (!path_exists(full)) {
    if (here) state.status = "missing";
    return state;
  }
  if (!here) return state;
  const std::vector<store::Entry> now =
      store::scan(full, &repository.stat_cache(), repository.pool(), context.progress());
  state.difference = store::compare(repository.store().entries(pointer.digest), now);
  if (!state.difference.empty()) state.status = "modified";
  return state;
}

std::string what_to_do(const State& state) {
  const std::string& name = state.pointer.artifact;
  if (state.status == "modified")
    return fmt::format("`mlx add {0}` stores it, `mlx checkout {0} --force` discards it", name);
  if (state.status == "missing") return "`mlx checkout` brings it";
  if (state.status == "not fetched") return "`mlx pull` brings it";
  if (!state.version && state.pointer.kind == registry::ArtifactKind::kDataset)
    return "`mlx commit -m MESSAGE` makes a version";
  return "";
}

void print(Context& context, const State& state, bool all) {
  const std::string name = state.version ? state.version->name() : state.pointer.artifact + " (not committed)";
  const bool good = state.status == "clean";
  context.line(fmt::format("{}  {}  {}", context.bold(name),
                           good ? context.green(state.status) : context.red(state.status),
                           files_text(state.pointer.files, state.pointer.size)));
  print_difference(context, state.difference, all ? SIZE_MAX : 10);
  const std::string next = what_to_do(state);
  if (!next.empty()) context.line(context.dim("    " + next));
}

int run(bool all, Context& context) {
  registry::Repository& repository = context.repository();
  Json list = Json::array();
  for (const registry::Pointer& pointer : registry::all_pointers(repository)) {
    const State state = look_at(repository, pointer, context);
    print(context, state, all);
    Json one = {
        {"artifact", pointer.artifact},           {"kind", registry::kind_name(pointer.kind)},
        {"digest", pointer.digest.text()},        {"version", state.version ? Json(state.version->name()) : Json()},
        {"committed", state.version.has_value()}, {"status", state.status}};
    one.update(difference_json(state.difference));
    list.push_back(std::move(one));
  }
  if (list.empty()) context.line("no data and no models yet: `mlx add FOLDER` stores data");
  if (context.wants_json())
    context.json({{"schema", "mlx.status/1"}, {"root", repository.root()}, {"artifacts", list}});
  return 0;
}

}  // namespace

Command add_status() {
  auto all = std::make_shared<bool>(false);
  Command command;
  command.name = "status";
  command.summary = "Show what differs from the pointers, and what has no version yet";
  command.group = "versions";
  command.options = {flag("-v,--verbose", *all, "List every file that differs")};
  command.examples = {"mlx status", "mlx status --json"};
  command.run = [all](Context& context) { return run(*all, context); };
  return command;
}

}  // namespace mlx::cmd
