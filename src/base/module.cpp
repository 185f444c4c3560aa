// dlopen relative to /proc/self/exe, so that the install tree can be moved.
#include "base/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace mlx {
namespace {

// Whether the file is shorter than its own header says. Opening such a file may end in a bus error.
bool cut_off(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(0, file.tellg()));
  Elf64_Ehdr header{};
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return true;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;  // dlopen says what it is
  return header.e_shoff > size || size - header.e_shoff < std::uint64_t{header.e_shnum} * header.e_shentsize;
}

std::string last_problem(const char* otherwise) {
  const char* reason = dlerror();
  return reason ? reason : otherwise;
}

}  // namespace

std::string executable_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= path.size()) return {};
  return {path.data(), static_cast<std::size_t>(length)};
}

std::string executable_folder() {
  return std::filesystem::path(executable_path()).parent_path();
}

Module open_module(const std::string& name) {
  Module module;
  const std::filesystem::path folder = executable_folder();
  const std::array candidates{folder / "lib/mlx" / name, (folder / "../lib/mlx" / name).lexically_normal()};
  for (const auto& candidate : candidates) {
    std::error_code ignored;
    if (!std::filesystem::exists(candidate, ignored)) continue;
    module.found = true;
    module.problem = cut_off(candidate) ? fmt::format("{} is damaged: it has been cut off", candidate.string()) : "";
    if (!module.problem.empty()) continue;
    module.handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module.handle) break;
    module.problem = last_problem("cannot be opened");
  }
  if (!module.handle && module.problem.empty())
    module.problem = fmt::format("there is neither {} nor {}", candidates[0].string(), candidates[1].string());
  return module;
}

void* Module::symbol(const char* name) {
  void* address = handle ? dlsym(handle, name) : nullptr;
  if (!address && problem.empty()) problem = fmt::format("the module has no {}", name);
  return address;
}

}  // namespace mlx
