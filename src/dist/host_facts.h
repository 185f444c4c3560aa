// What a host says of itself before ranks are started there, and what stands in their way. Used by cmd/rank.cpp, which
// says it, and cmd/hosts.cpp, which asks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::dist {

struct HostFacts {
  std::string version, program;  // of mlx, and its path
  std::string sources;           // that a training's bits depend on
  std::string native, portable;  // numerics ids of a training
  std::string isa;
  std::string mpi;              // why MPI cannot be used; "" if it can
  std::string cache;            // the folder of its store of other repositories' data
  std::string address, caller;  // of the two ends of the ssh connection that asks; "" if there is none
  int cores = 1;
  std::int64_t memory = 0, disk = 0;  // bytes that are free
  std::int64_t time = 0;              // seconds since 1970
};
Json to_json(const HostFacts& facts);
HostFacts facts_from_json(const Json& json, const std::string& what);  // kCorrupt naming `what` and the key

struct Obstacle {
  std::string text, hint;
};
// What the ranks there need, in bytes.
struct HostNeeds {
  bool portable = false;    // numerics
  std::int64_t memory = 0;  // of all of them
  std::int64_t data = 0;    // of what the host lacks
};
// Why a training cannot have ranks there. Empty if it can.
std::vector<Obstacle> obstacles(const HostFacts& own, const HostFacts& host, const HostNeeds& needs);

}  // namespace mlx::dist
