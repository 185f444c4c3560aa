// mlx ls: artifacts and their versions, or the files of one version.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cmd/describe.h"

namespace mlx::cmd {
namespace {

int list_artifacts(Context& context) {
  std::map<std::string, std::vector<registry::Version>> artifacts;
  for (registry::Version& version : registry::versions(context.repository())) {
    artifacts[version.artifact].push_back(std::move(version));
  }
  Json list = Json::array();
  for (const auto& [name, versions] : artifacts) {
    const registry::Version& last = versions.back();
    context.line(fmt::format("{}  {}  {} version{}, latest v{}: {}", context.bold(name), registry::kind_name(last.kind),
                             versions.size(), versions.size() == 1 ? "" : "s", last.number,
                             files_text(last.files, last.bytes)));
    Json all = Json::array();
    for (const registry::Version& version : versions) all.push_back(version_json(version));
    list.push_back({{"artifact", name}, {"kind", registry::kind_name(last.kind)}, {"versions", all}});
  }
  if (list.empty()) context.line("no versions yet: `mlx add FOLDER`, then `mlx commit -m MESSAGE`");
  if (context.wants_json()) context.json({{"schema", "mlx.ls/1"}, {"artifacts", list}});
  return 0;
}

bool below(const std::string& path, const std::string& folder) {
  return folder.empty() || path == folder || path.starts_with(folder + "/");
}

int list_files(const std::string& text, Context& context) {
  registry::Repository& repository = context.repository();
  registry::Reference reference = registry::parse_reference(text);
  const registry::Version version = registry::resolve(repository, text);
  while (reference.path.ends_with('/')) reference.path.pop_back();
  Json list = Json::array();
  std::size_t found = 0;
  for (const store::Entry& entry : repository.store().entries(version.digest)) {
    if (!below(entry.path, reference.path)) continue;
    ++found;
    if (context.wants_json())
      list.push_back(entry_json(entry));
    else
      context.line(
          fmt::format("{:06o} {} {:>12} {}", entry.mode, entry.content.brief(), entry.size, printable(entry.path)));
  }
  if (found == 0 && !reference.path.empty()) {
    throw Error(ErrorKind::kNotFound, fmt::format("{} has nothing at '{}'", version.name(), reference.path),
                fmt::format("`mlx ls {}` lists its files", version.name()));
  }
  if (context.wants_json()) {
    context.json(
        {{"schema", "mlx.ls/1"}, {"version", version.name()}, {"digest", version.digest.text()}, {"files", list}});
  }
  return 0;
}

}  // namespace

Command add_ls() {
  auto reference = std::make_shared<std::string>();
  Command command;
  command.name = "ls";
  command.summary = "List datasets and models, or the files of a version";
  command.group = "versions";
  command.options = {
      optional_argument("REF", *reference, "A version, with an optional :path/inside", Complete::kReference)};
  command.examples = {"mlx ls", "mlx ls data/fashion@v1", "mlx ls clf:weights.safetensors"};
  command.run = [reference](Context& context) {
    return reference->empty() ? list_artifacts(context) : list_files(*reference, context);
  };
  return command;
}

}  // namespace mlx::cmd
