// What of this program and machine can change a result, hashed.
#include "train/numerics.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

#include "base/json.h"
#include "base/parallel.h"
#include "compiled_by.h"
#include "train_sources.h"

namespace mlx::train {
namespace {

// The C library, and what it was told to take another machine for: its exp and log are chosen by that as it is loaded.
std::string libm() {
  std::string version = gnu_get_libc_version();
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  if (tunables && std::string_view(tunables).find("glibc.cpu.") != std::string_view::npos)
    version += fmt::format(" {}", tunables);
  return version;
}

Json numerics(Sources sources, kernels::Level level) {
  const bool gpu = level == kernels::Level::kCuda;
  return {{"compiler", MLX_COMPILED_BY},
          {"isa", gpu ? kernels::cuda_description() : kernels::isa_name()},
          {"kernels", kernels::name_of(level)},
          {"libm", libm()},
          {"onednn", level == kernels::Level::kOneDnn ? kernels::onednn_version() : ""},
          {"sources", sources.digest}};
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

Sources train_sources() {
  return {MLX_TRAIN_SOURCES};
}

Digest numerics_id(Sources sources, kernels::Level level, bool portable) {
  Json all = numerics(sources, level);
  if (portable) {
    for (const char* name : {"isa", "onednn"}) all.erase(name);
    all["kernels"] = "portable";
  }
  return Digest::of(canonical(all));
}

Json environment(Sources sources, kernels::Level level, int threads, bool portable) {
  Json out = numerics(sources, level);
  out["cpu"] = cpu_name();
  out["cores"] = cores();
  out["threads"] = threads;
  out["numerics"] = numerics_id(sources, level, portable).text();
  return out;
}

Digest run_key(const std::string& command, const std::vector<std::pair<std::string, Digest>>& inputs,
               const std::string& params, const Digest& numerics) {
  Json list = Json::array();
  for (const auto& [role, digest] : inputs) list.push_back({{"digest", digest.text()}, {"role", role}});
  return Digest::of(canonical({{"command", command},
                               {"inputs", list},
                               {"numerics", numerics.text()},
                               {"params", parse_json(params, "parameters")}}));
}

}  // namespace mlx::train
