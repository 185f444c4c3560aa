// mlx version: which mlx this is, and with -v on what it stands.
#include <fmt/format.h>

#include <memory>

#include "base/json.h"
#include "cmd/cli.h"
#include "cmd/help.h"

namespace mlx::cmd {
namespace {

int run(bool details, Context& context) {
  Json document = {{"schema", "mlx.version/1"}, {"version", MLX_VERSION}};
  context.line(fmt::format("mlx {}", MLX_VERSION));
  if (context.wants_json()) context.json(document);
  return 0;
}

}  // namespace

std::string version_text() {
  return fmt::format("mlx {}\n", MLX_VERSION);
}

Command add_version() {
  auto details = std::make_shared<bool>(false);
  Command command;
  command.name = "version";
  command.summary = "Print the version; with -v, what it was built from and runs on";
  command.group = "meta";
  command.examples = {"mlx version -v"};
  command.options = {flag("-v,--verbose", *details, "Libraries, processor and kernels too")};
  command.run = [details](Context& context) { return run(*details, context); };
  return command;
}

}  // namespace mlx::cmd
