// mlx cat: the bytes of one file of a version, straight from the store.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/progress.h"
#include "cmd/cli.h"
#include "registry/artifacts.h"

namespace mlx::cmd {
namespace {

int run(const std::string& text, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Reference reference = registry::parse_reference(text);
  if (reference.path.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("cat: '{}' names no file", text),
                fmt::format("write {}:path/inside; `mlx ls {}` lists its files", text, text));
  }
  const registry::Version version = registry::resolve(repository, text);
  const std::optional<store::Entry> entry = repository.store().find(version.digest, reference.path);
  if (!entry) {
    throw Error(ErrorKind::kNotFound, fmt::format("{} has no file '{}'", version.name(), reference.path),
                fmt::format("`mlx ls {}` lists its files", version.name()));
  }
  const store::BlobReader reader = repository.store().open_blob(entry->content);
  std::string block(std::size_t{1} << 20, '\0');
  for (std::uint64_t at = 0; at < reader.size();) {
    const std::size_t count = reader.read_at(at, block.data(), block.size());
    context.out({block.data(), count});
    at += count;
    check_interrupted();
  }
  return 0;
}

}  // namespace

Command add_cat() {
  auto reference = std::make_shared<std::string>();
  Command command;
  command.name = "cat";
  command.summary = "Print a file of a version";
  command.group = "versions";
  command.json = false;
  command.options = {argument("REF:PATH", *reference, "A version and a path inside it", Complete::kReference)};
  command.examples = {"mlx cat clf@v1:model.json", "mlx cat data/fashion:labels.csv | head"};
  command.run = [reference](Context& context) { return run(*reference, context); };
  return command;
}

}  // namespace mlx::cmd
