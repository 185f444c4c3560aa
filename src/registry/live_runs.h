// Which runs a process is working on. It holds a lock on .mlx/runs/ID, and the kernel releases that lock when the
// process ends, however it ends. This tells a killed run from one that is still running, and keeps two processes out of
// one run. Runs of other clones have no file here.
#pragma once

#include <map>
#include <string>

#include "base/fd.h"
#include "store/disk.h"

namespace mlx::registry {

// Not thread-safe.
class LiveRuns {
 public:
  LiveRuns(std::string folder, store::Disk& disk) : folder_(std::move(folder)), disk_(disk) {}
  void hold(const std::string& run);          // throws kConflict if another process works on it
  void let_go(const std::string& run);        // the run has ended; no error if it was not held
  bool killed(const std::string& run) const;  // true if its process is gone and did not end it

 private:
  std::string path_of(const std::string& run) const;
  std::string folder_;  // .mlx/runs
  store::Disk& disk_;
  std::map<std::string, Fd> held_;
};

}  // namespace mlx::registry
