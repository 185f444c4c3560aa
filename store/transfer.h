// Copying objects between stores as they are stored, without decoding for compression. Used by remotes.
#pragma once

#include <vector>

#include "base/progress.h"
#include "store/remote.h"

namespace mlx::store {

// Those of `objects` that `store` lacks, each once, in the order given.
std::vector<ObjectRef> lacking(const Store& store, const std::vector<ObjectRef>& objects);
// Copies what `to` lacks; verified, read back, durable and visible when it returns. kNotFound where `from` lacks one:
// nothing is published then.
void transfer(const Store& from, Store& to, const std::vector<ObjectRef>& objects, Progress& progress);

}  // namespace mlx::store
