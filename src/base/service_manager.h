// What a service manager such as systemd and a process that it starts tell each other: sd_notify(3), sd_listen_fds(3).
// Used by mlx serve.
#pragma once

#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/fd.h"

namespace mlx {

// Tells the manager a state, such as "READY=1"; does nothing if there is none, or if it does not listen.
void tell_service_manager(const Environment& environment, std::string_view state);

// The sockets at which the manager already listens for this process, to be closed by it; each the first time only.
// Throws kUsage if what it has handed over is no listening stream socket.
std::vector<Fd> sockets_of_service_manager(const Environment& environment);

}  // namespace mlx
