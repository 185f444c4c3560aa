// dlopen relative to /proc/self/exe, so that the install tree can be moved.
#include "base/module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>

namespace mlx {
namespace {

std::filesystem::path executable_folder() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= path.size()) return {};
  return std::filesystem::path(std::string(path.data(), static_cast<std::size_t>(length))).parent_path();
}

std::string last_problem(const char* otherwise) {
  const char* reason = dlerror();
  return reason ? reason : otherwise;
}

}  // namespace

Module open_module(const std::string& name) {
  Module module;
  const std::filesystem::path folder = executable_folder();
  for (const auto& candidate : {folder / "lib/mlx" / name, folder / "../lib/mlx" / name}) {
    std::error_code ignored;
    if (!std::filesystem::exists(candidate, ignored)) continue;
    module.handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    module.problem = module.handle ? std::string() : last_problem("cannot be opened");
    if (module.handle) break;
  }
  if (!module.handle && module.problem.empty())
    module.problem = fmt::format("lib/mlx/{} is not beside {}", name, folder.string());
  return module;
}

void* Module::symbol(const char* name) {
  void* address = handle ? dlsym(handle, name) : nullptr;
  if (!address && problem.empty()) problem = fmt::format("the module has no {}", name);
  return address;
}

}  // namespace mlx
