// What of this program and machine can change a result, hashed.
#include "train/numerics.h"

#include <gnu/libc-version.h>

#include <fstream>

#include "base/json.h"
#include "base/parallel.h"
#include "numerics_sources.h"

namespace mlx::train {
namespace {

Json numerics(kernels::Level level) {
  const bool gpu = level == kernels::Level::kCuda;
  return {{"isa", gpu ? kernels::cuda_description() : kernels::isa_name()},
          {"kernels", kernels::name_of(level)},
          {"libm", gnu_get_libc_version()},
          {"onednn", level == kernels::Level::kOneDnn ? kernels::onednn_version() : ""},
          {"sources", MLX_NUMERICS_SOURCES}};
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

Digest numerics_id(kernels::Level level, bool portable) {
  Json all = numerics(level);
  if (portable) {
    for (const char* name : {"isa", "onednn"}) all.erase(name);
    all["kernels"] = "portable";
  }
  return Digest::of(canonical(all));
}

Json environment(kernels::Level level, int threads, bool portable) {
  Json out = numerics(level);
  out["cpu"] = cpu_name();
  out["cores"] = cores();
  out["threads"] = threads;
  out["numerics"] = numerics_id(level, portable).text();
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
