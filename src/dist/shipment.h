// This program for a host that lacks it: an archive of the executable, its modules and the libraries that they link,
// except those of C, C++ and Open MPI, which are the host's. It has the layout of an installation and runs from any
// folder. Used by cmd/ask_host.cpp.
#pragma once

#include <string>

namespace mlx::dist {

struct Shipment {
  std::string archive;  // gzip-compressed tar
  std::string id;       // 16 hex digits of its SHA-256: the same program has the same
};
// kMissing if this program's own files cannot be found.
Shipment pack_program();

// Shell commands for the host, which print the path of the program in its cache, ~/.cache/mlx/programs/ID. The first
// exits with 1 if it is not there. The second reads the archive from its stdin, and removes programs that were not used
// for 30 days.
std::string find_command(const std::string& id);
std::string unpack_command(const std::string& id);

}  // namespace mlx::dist
