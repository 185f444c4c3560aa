// What the command line and the environment say of kernels.
#include "cmd/level.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/device.h"

namespace mlx::cmd {
namespace {

bool has_gpu() {
  try {
    kernels::cuda_device();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

kernels::Level chosen_level(const Environment& environment) {
  return kernels::parse_level(environment.get("MLX_KERNELS").value_or(""));
}

kernels::Level chosen_level(Context& context) {
  const kernels::Level level = chosen_level(context.environment());
  const std::string problem = kernels::onednn_problem();
  if (!context.environment().get("MLX_KERNELS") && !problem.empty())
    context.progress().warn(
        fmt::format("computing with the kernels '{}', which are slower than oneDNN's and give other bits: {}; "
                    "install mlx whole, with lib/mlx",
                    kernels::name_of(level), problem));
  return level;
}

kernels::Level chosen_level(Context& context, const std::string& device) {
  if (device == "cuda") kernels::cuda_device();  // kMissing without a GPU
  if (device == "cuda" || (device == "auto" && has_gpu())) return kernels::Level::kCuda;
  if (device == "auto" && kernels::cuda_is_unusable())
    context.progress().warn(
        fmt::format("computing on the CPU, for the GPU cannot be used: {}", kernels::cuda_description()));
  return chosen_level(context);
}

Option device_option(std::string& device) {
  return choice("--device", "WHERE", {"auto", "cpu", "cuda"}, device,
                "Where to compute; auto takes a GPU if there is one (default: cpu)");
}

}  // namespace mlx::cmd
