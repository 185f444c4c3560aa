// Whether a folder stands on a network file system, and whether locks work there. Used when SQLite opens a database.
#pragma once

#include <string>

namespace mlx::store {

// By the type that statfs reports: NFS, CIFS, Lustre and others whose memory maps are not shared between machines.
bool is_on_network(const std::string& path);
// Takes and releases a lock on a file beside `path`. kIo, with a hint, if the file system refuses.
void probe_locks(const std::string& path);

}  // namespace mlx::store
