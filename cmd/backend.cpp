// What the command line and the environment say of kernels.
#include "cmd/backend.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "kernels/device.h"

namespace mlx::cmd {
namespace {

std::optional<kernels::Backend> gpu() {
  try {
    return kernels::cuda_backend();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

kernels::Backend chosen_backend(const Environment& environment) {
  return kernels::parse_backend(environment.get("MLX_KERNELS").value_or(""));
}

kernels::Backend chosen_backend(Context& context) {
  const kernels::Backend backend = chosen_backend(context.environment());
  const std::string problem = kernels::onednn_problem();
  if (!context.environment().get("MLX_KERNELS") && !problem.empty())
    context.progress().warn(
        fmt::format("computing with the kernels '{}', which are slower than oneDNN's and give other bits: {}; "
                    "install mlx whole, with lib/mlx",
                    backend.name(), problem));
  return backend;
}

kernels::Backend chosen_backend(Context& context, const std::string& device) {
  if (device == "cuda") return kernels::cuda_backend();
  if (device != "auto") return chosen_backend(context);
  if (const std::optional<kernels::Backend> found = gpu()) return *found;
  if (kernels::cuda_is_unusable())
    context.progress().warn(
        fmt::format("computing on the CPU, for the GPU cannot be used: {}", kernels::cuda_description()));
  return chosen_backend(context);
}

Option device_option(std::string& device) {
  return choice("--device", "WHERE", {"auto", "cpu", "cuda"}, device,
                "Where to compute; auto takes a GPU if there is one (default: cpu)");
}

}  // namespace mlx::cmd
