// HTTP serving of models: batching, protocols (protocols/protocol.h), health and Prometheus metrics. Sources:
// Prometheus text exposition format 0.0.4, RFC 9110/9112.
#pragma once

#include <vector>

#include "base/fd.h"
#include "base/interruption.h"
#include "serve/options.h"

namespace mlx::serve {

// Serves until `stop` is raised (looked at twice a second or faster), then finishes what is in flight. The names
// differ. Throws kConflict for a busy port, kUsage for a model that cannot be served; both before it listens.
void serve(std::vector<ModelSpec> models, const ServerOptions& options, const Interruption& stop);

// Lets a server take a socket that listens already, of TCP or of the file system. Throws kUsage if it is another one.
void serve_at(const Fd& socket, ServerOptions& options);

}  // namespace mlx::serve
