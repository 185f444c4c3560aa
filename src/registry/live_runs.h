// Which runs are being worked in. Whoever works in one holds a lock on .mlx/runs/ID, which the kernel lets go of when
// the process ends, however it ends: so a run that was killed is told from one that goes on, and no two processes work
// in the same one. A run of another clone has no such file here.
#pragma once

#include <map>
#include <string>

#include "base/fd.h"
#include "store/disk.h"

namespace mlx::registry {

// Of one thread.
class LiveRuns {
 public:
  LiveRuns(std::string folder, store::Disk& disk) : folder_(std::move(folder)), disk_(disk) {}
  void hold(const std::string& run);          // kConflict where another process works in it
  void let_go(const std::string& run);        // it has ended; fine where it was not held
  bool killed(const std::string& run) const;  // whether somebody worked in it, is gone, and did not end it

 private:
  std::string path_of(const std::string& run) const;
  std::string folder_;  // .mlx/runs
  store::Disk& disk_;
  std::map<std::string, Fd> held_;
};

}  // namespace mlx::registry
