// mlx diff run:A run:B: what differs between two runs, side by side.
#include <fmt/format.h>

#include "base/json.h"
#include "cmd/describe.h"
#include "cmd/diff.h"

namespace mlx::cmd {
namespace {

Json document(const std::string& text) {
  return text.empty() ? Json::object() : parse_json(text, "run");
}

// Versions are shown by name if this repository knows them.
Json inputs_json(registry::Repository& repository, const registry::Run& run) {
  Json json = Json::object();
  const std::vector<registry::Version> versions = registry::versions(repository);
  for (const auto& [role, digest] : run.inputs) {
    std::string name = digest.brief();
    for (const registry::Version& version : versions)
      if (version.digest == digest) name = version.name();
    json[role] = name;
  }
  return json;
}

}  // namespace

bool diff_runs(const std::string& first, const std::string& second, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Run before = registry::read_run(repository, first), after = registry::read_run(repository, second);
  const auto values = [](const std::string& a, const std::string& b) {
    return diff::diff_values(document(a), document(b));
  };
  const std::pair<const char*, std::vector<diff::ValueChange>> parts[] = {
      {"run",
       diff::diff_values({{"command", before.command}, {"title", before.title}, {"status", name_of(before.status)}},
                         {{"command", after.command}, {"title", after.title}, {"status", name_of(after.status)}})},
      {"inputs", diff::diff_values(inputs_json(repository, before), inputs_json(repository, after))},
      {"parameters", values(before.params, after.params)},
      {"metrics", values(before.summary, after.summary)},
      {"environment", values(before.environment, after.environment)},
      {"code", values(before.code, after.code)},
  };
  bool different = false;
  Json json = {
      {"schema", "mlx.diff/1"}, {"different", false}, {"before", "run:" + before.id}, {"after", "run:" + after.id}};
  for (const auto& [title, changes] : parts) {
    different = different || !changes.empty();
    json[title] = values_json(changes);
  }
  json["different"] = different;
  if (context.wants_json()) {
    context.json(json);
    return different;
  }
  if (!different) return false;
  const auto took = [](const registry::Run& run) { return run.ended ? duration_text(run.ended - run.started) : "…"; };
  context.line(context.bold(fmt::format("run:{} -> run:{}", before.id, after.id)));
  context.line(context.dim(fmt::format("  {}, {} -> {}, {}", local_time(before.started), took(before),
                                       local_time(after.started), took(after))));
  for (const auto& [title, changes] : parts) print_values(context, title, changes);
  return true;
}

}  // namespace mlx::cmd
