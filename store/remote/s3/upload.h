// Sends objects as packs: cut in the order given, sent several at once, and entered into the catalogue in that order,
// so that what is in it never lacks what went before. Used by remote.cpp.
#pragma once

#include <vector>

#include "base/progress.h"
#include "store/remote/remote.h"
#include "store/remote/s3/catalogue_file.h"
#include "store/remote/s3/pack_tables.h"
#include "store/temporary.h"

namespace mlx::store::s3 {

// What an upload works with; all outlive it.
struct UploadContext {
  Client& client;
  CatalogueFile& catalogue;
  PackTables& tables;
  Disk& disk;
  Pool& pool;          // reads objects
  Pool& network;       // one thread a connection
  std::string folder;  // for packs on their way
};

// `keys` has none twice. What got through before an error is in the catalogue where that can still be written.
void upload(const UploadContext& context, const std::vector<ObjectKey>& keys, const ReadStored& read,
            Progress& progress);

}  // namespace mlx::store::s3
