// mlx ls: artifacts and their versions, or the files of one version.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/references.h"
#include "store/worktree/checkout.h"

namespace mlx::cmd {
namespace {

// "  (production v2, staging v3)": the versions of aliases.
std::string aliases_text(Context& context, const std::vector<registry::Version>& versions) {
  std::map<std::string, std::string> stand;  // several versions if an alias was moved on both sides
  for (const registry::Version& version : versions) {
    for (const std::string& alias : version.aliases)
      stand[alias] += fmt::format("{}v{}", stand[alias].empty() ? " " : " and ", version.number);
  }
  std::string text;
  for (const auto& [alias, where] : stand) text += (text.empty() ? "" : ", ") + alias + where;
  return text.empty() ? "" : "  " + context.yellow("(" + text + ")");
}

int list_artifacts(Context& context) {
  std::map<std::string, std::vector<registry::Version>> artifacts;
  for (registry::Version& version : registry::versions(context.repository())) {
    artifacts[version.artifact].push_back(std::move(version));
  }
  Json list = Json::array();
  for (const auto& [name, versions] : artifacts) {
    const registry::Version& last = versions.back();
    context.line(fmt::format("{}  {}  {}, latest v{}: {}{}", context.bold(name), registry::kind_name(last.kind),
                             counted(versions.size(), "version"), last.number, files_text(last.files, last.bytes),
                             aliases_text(context, versions)));
    Json all = Json::array();
    for (const registry::Version& version : versions) all.push_back(version_json(version));
    list.push_back({{"artifact", name}, {"kind", registry::kind_name(last.kind)}, {"versions", all}});
  }
  if (list.empty()) context.line("no versions yet: `mlx add FOLDER`, then `mlx commit -m MESSAGE`");
  if (context.wants_json()) context.json({{"schema", "mlx.ls/1"}, {"artifacts", list}});
  return 0;
}

// One line of a listing: a file, or (without -r) a folder with what is in it.
struct Row {
  std::string path;  // folders end in "/"
  const store::Entry* entry = nullptr;
  std::uint64_t files = 0, bytes = 0;
};

// Files at `path` or directly below it; deeper files are replaced by their folders.
std::vector<Row> rows_of(const std::vector<store::Entry>& entries, const std::string& path) {
  std::vector<Row> rows;
  for (const store::Entry& entry : entries) {
    const std::size_t from = path.empty() || entry.path == path ? 0 : path.size() + 1;
    const std::size_t slash = entry.path == path ? std::string::npos : entry.path.find('/', from);
    if (slash == std::string::npos) {
      rows.push_back({entry.path, &entry, 1, entry.size});
      continue;
    }
    std::string folder = entry.path.substr(0, slash + 1);
    if (rows.empty() || rows.back().path != folder) rows.push_back({std::move(folder)});
    rows.back().files += 1;
    rows.back().bytes += entry.size;
  }
  return rows;
}

void print_file(Context& context, const store::Entry& entry) {
  context.line(
      fmt::format("{:06o} {} {:>12} {}", entry.mode, entry.content.brief(), entry.size, printable(entry.path)));
}

int list_files(const std::string& text, bool folders, Context& context) {
  registry::Repository& repository = context.repository();
  registry::Reference reference = registry::parse_reference(text);
  const registry::Version version = registry::resolve(repository, text);
  while (reference.path.ends_with('/')) reference.path.pop_back();
  registry::need_files_of(repository, version.name(), version.digest);
  const std::vector<store::Entry> entries =
      store::entries_inside(repository.store().entries(version.digest), reference.path);
  if (entries.empty() && !reference.path.empty()) {
    throw Error(ErrorKind::kNotFound, fmt::format("{} has nothing at '{}'", version.name(), reference.path),
                fmt::format("`mlx ls {}` lists its files", shell_quoted(version.name())));
  }
  Json files = Json::array(), listed = Json::array();
  if (folders) {
    for (const Row& row : rows_of(entries, reference.path)) {
      if (row.entry)
        print_file(context, *row.entry);
      else
        context.line(fmt::format("040000 {:<12} {:>12} {}", counted(row.files, "file"), row.bytes,
                                 context.bold(printable(row.path))));
      if (!row.entry) listed.push_back({{"path", row.path}, {"files", row.files}, {"bytes", row.bytes}});
    }
  } else {
    for (const store::Entry& entry : entries) print_file(context, entry);
  }
  if (!context.wants_json()) return 0;
  for (const store::Entry& entry : entries) files.push_back(entry_json(entry));
  Json document = {
      {"schema", "mlx.ls/1"}, {"version", version.name()}, {"digest", version.digest.text()}, {"files", files}};
  if (folders) document["folders"] = listed;
  context.json(document);
  return 0;
}

}  // namespace

Command add_ls() {
  auto reference = std::make_shared<std::string>();
  auto folders = std::make_shared<bool>(false);
  Command command;
  command.name = "ls";
  command.summary = "List datasets and models, or the files of a version";
  command.group = "versions";
  command.options = {
      optional_argument("REF", *reference, "A version, with an optional :path/inside", Complete::kReference),
      flag("-d,--folders", *folders, "Print each folder as one line instead of its files")};
  command.examples = {"mlx ls", "mlx ls data/fashion@v1", "mlx ls -d data/fashion:train/",
                      "mlx ls clf:weights.safetensors"};
  command.run = [reference, folders](Context& context) {
    return reference->empty() ? list_artifacts(context) : list_files(*reference, *folders, context);
  };
  return command;
}

}  // namespace mlx::cmd
