// mlx version: the version; with -v, libraries, kernels and devices.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

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
  std::string text = "no GPU";
  for (const kernels::Backend& backend : kernels::all_backends()) {
    if (!backend.can().own_memory) continue;
    if (kernels::problem_of(backend).empty()) return kernels::description_of(backend);
    text = "no GPU: " + kernels::description_of(backend);
  }
  return text;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

constexpr std::string_view kProblem = "_problem";  // why a library is not used, beside its version

Json details_json(Context& context) {
  Json out = {{"compiler", __VERSION__},
              {"sqlite", sqlite_version()},
              {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
  for (const kernels::Backend& backend : kernels::all_backends()) {
    const std::optional<kernels::Library> library = kernels::library_of(backend);
    if (!library) continue;
    out[library->name] = text_or_null(library->version);
    out[library->name + std::string(kProblem)] = text_or_null(kernels::defect_of(backend));
  }
  out["isa"] = kernels::isa_name();
  out["gpu"] = gpu_text();
  out["kernels"] = chosen_backend(context.environment()).name();
  out["cores"] = cores();
  return out;
}

int run_version(Context& context) {
  Json document = {{"schema", "mlx.version/1"}, {"version", MLX_VERSION}};
  context.line(fmt::format("mlx {}", MLX_VERSION));
  if (context.verbose()) {
    const Json more = details_json(context);
    for (const auto& [name, value] : more.items()) {
      if (name.ends_with(kProblem)) continue;  // stands where its version would
      if (const auto problem = more.find(name + std::string(kProblem)); problem != more.end() && problem->is_string()) {
        context.line(fmt::format("{:<10}none: {}", name, problem->get<std::string>()));
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
