// The other end of an SSH remote: answers requests of mlx-format-wire(5) from a folder remote, until the client closes
// its side. Used by `mlx serve-store`. Holds no keys; memory is bounded by two windows, whatever a client sends.
#pragma once

#include <optional>
#include <string>

#include "base/parallel.h"
#include "store/disk.h"
#include "store/remote/remote.h"
#include "store/remote/wire.h"

namespace mlx::store::wire {

struct ServeOptions {
  std::optional<std::string> path;  // the one store to serve, whatever the client asks for
  std::optional<std::string> root;  // the client's path must lie in this folder; relative paths start there
  bool read_only = false;
  std::string program;  // "mlx 0.1.0"
  std::uint32_t window = std::uint32_t{64} << 20;
  CheckHeads check_heads;  // called before heads are published
  const Interruption* interruption = &Interruption::never();
};

// Returns at the end of the input. Errors are sent to the client; those that end the connection are also thrown.
void serve(const ReadSome& read, const WriteAll& write, const ServeOptions& options, Disk& disk, Pool& pool);

// The folder that a client means by this path; kRefused outside of the root, symbolic links followed.
std::string served_path(const std::string& asked, const ServeOptions& options);

}  // namespace mlx::store::wire
