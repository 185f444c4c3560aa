// One host over ssh: what it says of itself, and mlx for one that lacks it.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/interruption.h"
#include "dist/host_facts.h"
#include "dist/hosts.h"
#include "dist/shipment.h"

namespace mlx::cmd {

inline constexpr const char* kSshVariable = "MLX_SSH_COMMAND";
inline constexpr const char* kRemoteMlxVariable = "MLX_REMOTE_MLX";
// The user's ssh, or one that asks for nothing.
std::string ssh_program(const Environment& environment);

struct Answer {
  dist::HostFacts facts;
  std::vector<dist::Obstacle> obstacles;
  bool lacks_mlx = false;   // or has another one
  std::size_t shipped = 0;  // bytes of mlx that were sent
};

// This program, packed when it is needed first. Thread-safe.
class Shipper {
 public:
  const dist::Shipment& shipment();

 private:
  std::once_flag packed_;
  dist::Shipment shipment_;
};

// Runs `mlx rank --facts` there. With a shipper, a host without mlx, or with another one than `own`, gets this one.
Answer ask_host(const dist::Host& host, const dist::HostFacts& own, const Environment& environment, Shipper* shipper);

// The same of a host that has mlx as `program`, until the interruption, which throws kInterrupted.
Answer ask_host_again(const dist::Host& host, const std::string& program, const Environment& environment,
                      const Interruption& interruption);

}  // namespace mlx::cmd
