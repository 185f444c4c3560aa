// See library_settings.h.
#include "kernels/library_settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace mlx::kernels {
namespace {

constexpr std::array<std::string_view, 6> kFamilies{"DNNL_", "ONEDNN_", "MKLDNN_", "CUBLAS", "CUDNN", "NVIDIA_TF32_"};
// Variables that affect only what the libraries print, and where.
constexpr std::array<std::string_view, 4> kHarmless{"VERBOSE", "LOG", "JIT_DUMP", "JIT_PROFILE"};

}  // namespace

bool is_library_setting(std::string_view variable) {
  return std::ranges::any_of(kFamilies, [&](std::string_view family) { return variable.starts_with(family); }) &&
         std::ranges::none_of(kHarmless, [&](std::string_view word) { return variable.find(word) != variable.npos; });
}

void clear_library_settings() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    if (is_library_setting(name)) names.emplace_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

}  // namespace mlx::kernels
