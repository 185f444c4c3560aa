// Collects what can change a result, and hashes it.
#include "work/numerics.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <fstream>
#include <optional>
#include <string>

#include "base/environment.h"
#include "base/json.h"
#include "base/parallel.h"
#include "compiled_by.h"

namespace mlx::work {
namespace {

// The C library's version, and the CPU features that it was told to assume: it selects its exp and log by them when it
// is loaded. It reads the process's own environment, so this does too.
std::string libm() {
  std::string version = gnu_get_libc_version();
  const std::optional<std::string> tunables = process_environment().get("GLIBC_TUNABLES");
  if (tunables && tunables->find("glibc.cpu.") != std::string::npos) version += fmt::format(" {}", *tunables);
  return version;
}

Json parts_of(const Numerics& numerics) {
  Json out = {{"sources", numerics.sources.hex()}};
  if (!numerics.backend) return out;
  const kernels::Backend backend = *numerics.backend;
  out["compiler"] = MLX_COMPILED_BY;
  out["isa"] = kernels::hardware_of(backend);
  out["kernels"] = backend.name();
  out["libm"] = libm();
  if (const auto library = kernels::library_of(backend)) out[library->name] = library->version;
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
    parts.erase("isa");
    if (const auto library = kernels::library_of(*numerics.backend)) parts.erase(library->name);
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
