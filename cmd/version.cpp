// mlx version: the version; with -v, libraries, kernels and devices.
#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "cmd/backend.h"
#include "cmd/cli/cli.h"
#include "cmd/cli/help.h"
#include "kernels/backend.h"
#include "kernels/cpu.h"
#include "store/sqlite.h"

namespace mlx::cmd {
namespace {

std::string sqlite_version() {
  store::Database db(":memory:", store::Database::Open::kCreate);
  store::Statement query = db.prepare("SELECT sqlite_version()");
  return query.step() ? query.text(0) : "";
}

// What the GPU is, or why there is none to use.
std::string gpu_text() {
  try {
    kernels::cuda_device();
    return kernels::cuda_description();
  } catch (const Error& error) {
    return error.message;
  }
}

Json details_json(Context& context) {
  const std::string onednn = kernels::onednn_version();
  return {{"compiler", __VERSION__},
          {"sqlite", sqlite_version()},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"onednn", onednn.empty() ? Json() : Json(onednn)},
          {"onednn_problem", kernels::onednn_problem().empty() ? Json() : Json(kernels::onednn_problem())},
          {"isa", kernels::isa_name()},
          {"gpu", gpu_text()},
          {"kernels", chosen_backend(context.environment()).name()},
          {"cores", cores()}};
}

int run_version(Context& context) {
  Json document = {{"schema", "mlx.version/1"}, {"version", MLX_VERSION}};
  context.line(fmt::format("mlx {}", MLX_VERSION));
  if (context.verbose()) {
    const Json more = details_json(context);
    for (const auto& [name, value] : more.items()) {
      if (name == "onednn_problem") continue;  // stands where its version would
      if (name == "onednn" && value.is_null() && more["onednn_problem"].is_string()) {
        context.line(fmt::format("{:<10}none: {}", name, more["onednn_problem"].get<std::string>()));
        continue;
      }
      context.line(fmt::format("{:<10}{}", name,
                               value.is_string() ? value.get<std::string>()
                               : value.is_null() ? "none"
                                                 : value.dump()));
    }
    document.update(more);
  }
  if (context.wants_json()) context.json(document);
  return 0;
}

}  // namespace

std::string version_text() {
  return fmt::format("mlx {}\n", MLX_VERSION);
}

Command add_version() {
  Command command;
  command.name = "version";
  command.summary = "Print the version; with -v, what it was built from and runs on";
  command.group = "meta";
  command.examples = {"mlx version -v"};
  command.verbose = "Print libraries, processor and kernels too";
  command.run = [](Context& context) { return run_version(context); };
  return command;
}

}  // namespace mlx::cmd
