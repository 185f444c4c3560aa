// A new folder, or a new file, while it is made. Used by clone.cpp and outside_output.cpp.
#pragma once

#include <string>

#include "base/fd.h"

namespace mlx::cmd {

// Made beside its place, under a name that nobody can foresee, and moved there when it is whole: what fails leaves
// nothing, and what one that was killed leaves stands in nobody's way and is taken away by the next. Nothing is taken
// away but a folder of this user's, no link, that has its mark beside it: a file that names the folder's inode, so that
// no project can bring one along.
class NewFolder {
 public:
  // `path` is absolute. kConflict if it exists and is not empty, or if another process is making it. `command`: the one
  // that makes it, "clone".
  NewFolder(std::string path, const std::string& command);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  const std::string& path() const { return made_; }  // the empty folder in which it is made
  // Moves it to its place, an empty folder or none. A folder that is in use (the shell's own) is filled instead.
  void keep(const std::string& current_folder);
  // Moves the one file `name` of it to the place, where nothing is.
  void keep_file(const std::string& name);

 private:
  std::string path_, made_;
  Fd parent_, lock_;
  bool kept_ = false;
};

}  // namespace mlx::cmd
