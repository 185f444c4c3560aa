// A store of copies: versions that can be fetched again, such as the datasets that ranks on this host read. The file
// copies/HEX says with its time when the version HEX was used last, and is locked while it is in use. Beyond a limit
// the copies that were not used for longest go.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "store/maintenance/gc.h"

namespace mlx::store {

// The version is in use as long as the descriptor is open.
Fd use_copy(const Store& store, Disk& disk, const Digest& manifest);

// Removes copies until the store has at most `limit` bytes, except those in use, and objects that belong to no copy.
// Packs younger than `grace_seconds` stay: they may belong to a copy that is not used yet.
GcReport limit_copies(Store& store, Disk& disk, std::uint64_t limit, std::int64_t grace_seconds, Progress& progress);

}  // namespace mlx::store
