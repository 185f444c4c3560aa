// What damage in the store means for versions, whether database, journal and pointers agree, and bringing back what was
// lost. Used by `mlx fsck`.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "registry/repository.h"
#include "registry/sync/sync.h"
#include "store/pack/repair.h"

namespace mlx::registry {

// A file of a version that cannot be read, or with an empty path a version whose list of files cannot.
struct Hit {
  std::string name;  // "data/fashion@v2", "run:0123… checkpoint 100"
  Digest manifest;
  std::string path;
  Digest content;  // zero where the path is empty
  std::string why;
};
// Of every version that this clone made, and of those of others whose manifest is here. Of the latter what is missing
// may never have been fetched and is no damage, nor is it in a lazy clone.
std::vector<Hit> versions_hit(Repository& repository, const store::FsckReport& report, Progress& progress);

// A line for each difference between the journal, the database and the operations that both are made of, and for each
// pointer in the worktree that is damaged or does not fit its version.
struct MetadataCheck {
  std::vector<std::string> problems;
  bool rebuild = false;  // rebuild_database mends some of it
};
MetadataCheck check_metadata(Repository& repository);

// A line for each of this clone's own small files that is damaged: its id, and what it has seen at remotes. With `mend`
// they go: a new id is made with the next operation, and what was seen is seen again.
std::vector<std::string> check_own_files(Repository& repository, bool mend);

// Operations that packs hold and meta.db does not, each with why where that is seen; and a line where all that was
// recorded before is lost. Empty where everything is known that was ever recorded here.
std::vector<std::string> unknown_history(Repository& repository);

// Stores again what `hits` and `lost` lack: from files of the worktree that still have the content, then from the
// remotes, each as far as it has it and can be reached. The number of files and objects that came.
struct Restored {
  std::uint64_t files = 0, objects = 0;
  std::vector<std::string> unreached;  // of each remote that could not be asked: its name and why
};
Restored restore(Repository& repository, const std::vector<Hit>& hits, const std::vector<store::ObjectRef>& lost,
                 const std::vector<RemoteConfig>& remotes, Progress& progress);

}  // namespace mlx::registry
