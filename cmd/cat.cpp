// mlx cat: the bytes of files of versions, straight from the store.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/references.h"
#include "store/worktree/checkout.h"

namespace mlx::cmd {
namespace {

constexpr std::uint64_t kLargestInJson = std::uint64_t{64} << 20;

struct File {
  std::string name;  // as it was typed
  registry::Version version;
  store::Entry entry;
};

File find_file(const std::string& text, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Reference reference = registry::parse_reference(text);
  if (reference.path.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("cat: '{}' names no file", text),
                fmt::format("write {0}:path/inside; `mlx ls {0}` lists its files", shell_quoted(text)));
  }
  const registry::Version version = registry::resolve(repository, text);
  registry::need_files_of(repository, version.name(), version.digest);
  const std::optional<store::Entry> entry = repository.store().find(version.digest, reference.path);
  if (entry) return {text, version, *entry};
  std::string folder = reference.path;
  while (folder.ends_with('/')) folder.pop_back();
  const bool is_folder = !store::entries_inside(repository.store().entries(version.digest), folder).empty();
  throw Error(ErrorKind::kNotFound,
              is_folder ? fmt::format("{}: '{}' is a folder", version.name(), folder)
                        : fmt::format("{} has no file '{}'", version.name(), reference.path),
              fmt::format("`mlx ls {}` lists its files", shell_quoted(is_folder ? text : version.name())));
}

void print(const File& file, Context& context) {
  const store::BlobReader reader = context.repository().store().open_blob(file.entry.content);
  std::string block(std::size_t{1} << 20, '\0');
  for (std::uint64_t at = 0; at < reader.size();) {
    const std::size_t count = reader.read_at(at, block.data(), block.size());
    context.out({block.data(), count});
    at += count;
    context.progress().check_interrupted();
  }
}

// With its content as "text" if it is UTF-8, else as "base64".
Json file_json(const File& file, Context& context) {
  if (file.entry.size > kLargestInJson) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: {} are too much for a JSON document", file.name, format_bytes(file.entry.size)),
                "without --json the bytes are printed as they are");
  }
  const Bytes bytes = context.repository().store().read_blob(file.entry.content);
  Json json = {{"name", file.name}, {"version", file.version.name()}};
  json.update(entry_json(file.entry));
  if (is_utf8(as_text(bytes)))
    json["text"] = as_text(bytes);
  else
    json["base64"] = to_base64(bytes);
  return json;
}

// All are found before the first is printed.
int run_cat(const std::vector<std::string>& texts, Context& context) {
  std::vector<File> files;
  files.reserve(texts.size());
  for (const std::string& text : texts) files.push_back(find_file(text, context));
  std::vector<store::Entry> entries;
  entries.reserve(files.size());
  for (const File& file : files) entries.push_back(file.entry);
  registry::fetch_on_demand(context.repository(), entries, context.progress());
  if (!context.wants_json()) {
    for (const File& file : files) print(file, context);
    return 0;
  }
  Json list = Json::array();
  for (const File& file : files) list.push_back(file_json(file, context));
  context.json({{"schema", "mlx.cat/1"}, {"files", list}});
  return 0;
}

}  // namespace

Command add_cat() {
  auto references = std::make_shared<std::vector<std::string>>();
  Command command;
  command.name = "cat";
  command.summary = "Print files of versions";
  command.group = "versions";
  command.options = {arguments("REF:PATH", *references,
                               "A version and a path inside it; several are printed one after the other",
                               Complete::kReference)};
  command.examples = {"mlx cat clf@v1:model.json", "mlx cat data/fashion:labels.csv | head",
                      "mlx cat --json clf@v1:model.json"};
  command.run = [references](Context& context) { return run_cat(*references, context); };
  return command;
}

}  // namespace mlx::cmd
