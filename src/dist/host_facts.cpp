// Facts as JSON, and compared.
#include "dist/host_facts.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace mlx::dist {

Json to_json(const HostFacts& facts) {
  return {{"schema", "mlx.host/1"},   {"version", facts.version}, {"program", facts.program},
          {"sources", facts.sources}, {"native", facts.native},   {"portable", facts.portable},
          {"isa", facts.isa},         {"mpi", facts.mpi},         {"cache", facts.cache},
          {"cores", facts.cores},     {"memory", facts.memory},   {"disk", facts.disk},
          {"time", facts.time},       {"address", facts.address}, {"caller", facts.caller}};
}

HostFacts facts_from_json(const Json& json, const std::string& what) {
  const auto text = [&](const char* key) { return json_string(json, key, what); };
  const auto number = [&](const char* key) { return json_int(json, key, what); };
  HostFacts out;
  out.version = text("version"), out.program = text("program"), out.sources = text("sources");
  out.native = text("native"), out.portable = text("portable"), out.isa = text("isa");
  out.mpi = text("mpi"), out.cache = text("cache");
  const std::int64_t cores = number("cores");
  if (cores < 1 || cores > 1 << 20) fail(ErrorKind::kCorrupt, "{}: {} cores", what, cores);
  out.cores = static_cast<int>(cores);
  out.memory = number("memory"), out.disk = number("disk"), out.time = number("time");
  if (json.contains("address")) out.address = text("address"), out.caller = text("caller");
  return out;
}

std::vector<Obstacle> obstacles(const HostFacts& own, const HostFacts& host, const HostNeeds& needs) {
  const auto size = [](std::int64_t count) {
    return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, count)));
  };
  std::vector<Obstacle> out;
  const bool other_program = own.version != host.version || own.sources != host.sources;
  if (other_program) {
    out.push_back({fmt::format("its mlx is {}, built from other sources than this one ({})", printable(host.version),
                               own.version),
                   "install the same mlx there; MLX_REMOTE_MLX names one that is not in PATH"});
  } else if (needs.portable ? own.portable != host.portable : own.native != host.native) {
    out.push_back(
        {fmt::format("its CPU ({}) or libraries would make other bits than these ({})", printable(host.isa), own.isa),
         needs.portable ? "install the same build of mlx and the same C library there"
                        : "--numerics portable gives the same bits on all of them"});
  }
  if (!host.mpi.empty()) out.push_back({printable(host.mpi), "install Open MPI there: apt install openmpi-bin"});
  if (host.memory < needs.memory) {
    out.push_back({fmt::format("its ranks need {} of memory, and {} are free", size(needs.memory), size(host.memory)),
                   "give it fewer ranks, or use a smaller [train] batch"});
  }
  if (host.disk < needs.data) {
    out.push_back(
        {fmt::format("the data takes {}, and {} has {} left", size(needs.data), printable(host.cache), size(host.disk)),
         fmt::format("make room there; {} itself may be removed", printable(host.cache))});
  }
  return out;
}

}  // namespace mlx::dist
