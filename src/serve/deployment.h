// How other programs keep `mlx serve` running: units of systemd, a file of Docker Compose, a manifest of KServe. Used
// by `mlx export`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlx::serve {

struct Deployment {
  std::string name;                    // of the service
  std::vector<std::string> arguments;  // of `mlx serve`, as its command line takes them
  std::string program = "mlx";         // there
  std::string folder;                  // that it runs in: the repository's
  std::int64_t cpus = 0, memory = 0;   // bytes; limits, 0 for none
  std::int64_t grace = 30;             // seconds that requests in flight may take when it is told to stop
  std::string user{};                  // systemd
  std::string image{}, claim{}, mount{}, name_space{};  // of containers
};

// Whether only this machine reaches a server that listens at this name or numeric address.
bool is_loopback(const std::string& host);

// All throw kUsage for what their formats cannot hold.
std::string systemd_service(const Deployment& deployment);
std::string systemd_socket(const Deployment& deployment);  // which starts the service of this name when it is asked
std::string compose_file(const Deployment& deployment);
std::string kserve_manifest(const Deployment& deployment);

}  // namespace mlx::serve
