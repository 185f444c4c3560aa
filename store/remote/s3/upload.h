// Sends objects as packs, several at once. Packs are cut, and enter the catalogue, in the order of the objects, so that
// an object in the catalogue never lacks one that comes before it. Used by remote.cpp.
#pragma once

#include <vector>

#include "base/progress.h"
#include "store/remote/remote.h"
#include "store/remote/s3/catalogue_file.h"
#include "store/remote/s3/pack_tables.h"
#include "store/temporary.h"

namespace mlx::store::s3 {

// What an upload uses; all of it outlives the upload.
struct UploadContext {
  Client& client;
  CatalogueFile& catalogue;
  PackTables& tables;
  Disk& disk;
  Pool& pool;          // reads objects
  Pool& network;       // one thread a connection
  std::string folder;  // for packs on their way
};

// `keys` has no doubles. After an error, packs that arrived are in the catalogue if it can still be written.
void upload(const UploadContext& context, const std::vector<ObjectKey>& keys, const ReadStored& read,
            Progress& progress);

}  // namespace mlx::store::s3
