// Names and lifetime of one writer's temporary files (mlx-format-pack(5), TEMPORARY FILES): a lock file shows that the
// writer is alive, and nobody else touches its files until they are renamed into place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/disk.h"

namespace mlx::store {

class TemporaryFiles {
 public:
  TemporaryFiles(std::string folder, Disk& disk) : folder_(std::move(folder)), disk_(disk) {}
  // Removes what is left, as far as possible.
  ~TemporaryFiles();
  TemporaryFiles(const TemporaryFiles&) = delete;
  TemporaryFiles& operator=(const TemporaryFiles&) = delete;
  // A path for a new file; the first call takes the lock.
  std::string next();
  // `path` has been renamed into place.
  void published(const std::string& path);
  // Removes what is left, and the lock; errors are thrown.
  void release();
  // Appends to the lock file, which others may read while this writer lives (pins.h).
  void note(std::string_view text);

 private:
  void take_lock();
  std::string folder_;
  Disk& disk_;
  std::string prefix_;  // "" until the lock is held
  Fd lock_;
  int count_ = 0;
  std::vector<std::string> paths_;
};

// Removes the temporary files of dead writers, never those of a live one, on any host.
void remove_stale_temporaries(const std::string& folder, const std::vector<std::string>& names, Disk& disk);
bool is_temporary(const std::string& name);
std::string boot_id();  // 16 hex digits that change when the machine starts; zeros if unknown
// The notes of living writers in `folder`, one text for each.
std::vector<std::string> notes_of_living_writers(const std::string& folder);

}  // namespace mlx::store
