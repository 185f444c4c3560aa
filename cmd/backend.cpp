// What the command line and the environment say of kernels.
#include "cmd/backend.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace mlx::cmd {
kernels::Backend chosen_backend(const Environment& environment) {
  return kernels::parse_backend(environment.get("MLX_KERNELS").value_or(""));
}

kernels::Backend chosen_backend(Context& context) {
  const kernels::Backend backend = chosen_backend(context.environment());
  if (context.environment().get("MLX_KERNELS")) return backend;
  for (const kernels::Backend& better : kernels::all_backends()) {
    const std::string defect = better.can().own_memory ? "" : kernels::defect_of(better);
    if (!defect.empty())
      context.progress().warn(fmt::format(
          "computing with the kernels '{}', which are slower than '{}' and give other bits: {}; install mlx "
          "whole, with lib/mlx",
          backend.name(), better.name(), defect));
  }
  return backend;
}

kernels::Backend chosen_backend(Context& context, const std::string& device) {
  for (const kernels::Backend& gpu : kernels::all_backends()) {
    if (!gpu.can().own_memory || (device != "auto" && device != gpu.device_word())) continue;
    if (device != "auto" || kernels::problem_of(gpu).empty()) return kernels::backend_on(gpu.device_word());
    if (const std::string defect = kernels::defect_of(gpu); !defect.empty())
      context.progress().warn(fmt::format("computing on the CPU, for the GPU cannot be used: {}", defect));
  }
  return chosen_backend(context);
}

Option device_option(std::string& device) {
  std::vector<std::string> words = {"auto"};
  for (const std::string_view word : kernels::device_words()) words.emplace_back(word);
  return choice("--device", "WHERE", std::move(words), device,
                "Where to compute; auto takes a GPU if there is one (default: cpu)");
}

}  // namespace mlx::cmd
