// What the command line and the environment say of kernels.
#include "cmd/level.h"

#include <fmt/format.h>

#include <cstdlib>

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

kernels::Level chosen_level() {
  const char* name = std::getenv("MLX_KERNELS");
  return kernels::parse_level(name == nullptr ? "" : name);
}

kernels::Level chosen_level(Progress& progress) {
  const kernels::Level level = chosen_level();
  const char* name = std::getenv("MLX_KERNELS");
  const std::string problem = kernels::onednn_problem();
  if ((name == nullptr || *name == '\0') && !problem.empty())
    progress.warn(
        fmt::format("computing with the kernels '{}', which are slower than oneDNN's and give other bits: {}; "
                    "install mlx whole, with lib/mlx",
                    kernels::name_of(level), problem));
  return level;
}

kernels::Level chosen_level(const std::string& device, Progress& progress) {
  if (device == "cuda") kernels::cuda_device();  // kMissing if there is none
  if (device == "cuda" || (device == "auto" && has_gpu())) return kernels::Level::kCuda;
  if (device == "auto" && kernels::cuda_is_unusable())
    progress.warn(fmt::format("computing on the CPU, for the GPU cannot be used: {}", kernels::cuda_description()));
  return chosen_level(progress);
}

Option device_option(std::string& device) {
  return choice("--device", "WHERE", {"auto", "cpu", "cuda"}, device,
                "Where to compute; auto takes a GPU if there is one (default: cpu)");
}

}  // namespace mlx::cmd
