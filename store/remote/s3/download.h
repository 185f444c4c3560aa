// Fetches objects from the packs of an S3 remote: one range request for neighbours, several requests at once. Used by
// remote.cpp.
#pragma once

#include <vector>

#include "base/progress.h"
#include "store/remote/remote.h"
#include "store/remote/s3/pack_tables.h"

namespace mlx::store::s3 {

// Each object goes to `take` verified against the pack's index and its checksum.
void download(Client& client, const PackTables& tables, std::vector<Place> places, Pool& network,
              const TakeStored& take, Progress& progress);

// One object by itself; by any thread.
StoredObject download_one(Client& client, const PackEntry& pack, const PackRecord& record);

}  // namespace mlx::store::s3
