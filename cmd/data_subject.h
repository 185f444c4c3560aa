// What `mlx check` and `mlx describe` look at: a version of a dataset, or files on disk; and statistics kept with
// versions.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/path.h"
#include "cmd/cli/cli.h"
#include "data/quality/statistics.h"
#include "registry/versions/artifacts.h"
#include "store/pack/store.h"

namespace mlx::cmd {

struct DataSubject {
  std::string name;                          // "data/houses@v2", or the path
  std::optional<registry::Version> version;  // none for files on disk
  Digest manifest;
  const store::Store* store = nullptr;

  // Files on disk are read through a store of their own.
  std::shared_ptr<TempFolder> place;
  std::shared_ptr<store::Store> own_store;
  std::string path;  // absolute
};

// A reference to a dataset; or a path, if it begins with . or / or if no dataset has this name.
DataSubject find_data(const std::string& word, Context& context);
// The version before; nullopt for the first one and for files on disk.
std::optional<DataSubject> version_before(const DataSubject& subject, Context& context);

// The statistics attached to the version, else measured now and attached, so that the next call answers at once.
// `again`: measures in any case.
data::Statistics statistics_of(const DataSubject& subject, const std::string& target, bool again, Context& context);
void keep_statistics(const DataSubject& subject, const std::string& target, const data::Statistics& statistics,
                     Context& context);

}  // namespace mlx::cmd
