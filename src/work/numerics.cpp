// Collects what can change a result, and hashes it.
#include "work/numerics.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "base/json.h"
#include "base/parallel.h"
#include "compiled_by.h"

namespace mlx::work {
namespace {

// The C library, and what it was told to take another machine for: its exp and log are chosen by that as it is loaded.
std::string libm() {
  std::string version = gnu_get_libc_version();
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  if (tunables && std::string_view(tunables).find("glibc.cpu.") != std::string_view::npos)
    version += fmt::format(" {}", tunables);
  return version;
}

Json parts_of(const Numerics& numerics) {
  Json out = {{"sources", numerics.sources.hex()}};
  if (!numerics.level) return out;
  const kernels::Level level = *numerics.level;
  out["compiler"] = MLX_COMPILED_BY;
  out["isa"] = level == kernels::Level::kCuda ? kernels::cuda_description() : kernels::isa_name();
  out["kernels"] = kernels::name_of(level);
  out["libm"] = libm();
  out["onednn"] = level == kernels::Level::kOneDnn ? kernels::onednn_version() : "";
  return out;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

Digest numerics_id(const Numerics& numerics) {
  Json parts = parts_of(numerics);
  if (numerics.portable) {
    for (const char* name : {"isa", "onednn"}) parts.erase(name);
    parts["kernels"] = "portable";
  }
  return Digest::of(canonical(parts));
}

Json environment(const Numerics& numerics, int threads) {
  Json out = parts_of(numerics);
  out["cpu"] = cpu_name();
  out["cores"] = cores();
  out["threads"] = threads;
  out["numerics"] = numerics_id(numerics).text();
  return out;
}

}  // namespace mlx::work
