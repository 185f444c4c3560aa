// Checks that the data of pointers is on a remote. Used by `mlx push --check` and git's pre-push hook.
#pragma once

#include <string>
#include <vector>

#include "registry/sync/sync.h"
#include "registry/versions/pointers.h"

namespace mlx::registry {

// A remote that does not exist yet holds nothing. If one gives no answer (its keys are locked, it cannot be reached),
// the others are still asked.
struct PushCheck {
  std::vector<Pointer> lacking;  // pointers whose versions are on none of the remotes that answered
  std::size_t answered = 0;
  struct Broken {
    std::string remote;
    std::size_t operations = 0;
  };
  std::vector<Broken> broken;  // remotes that have lost operations: nobody can clone them
  struct Silent {
    std::string remote;
    Error why;
  };
  std::vector<Silent> silent;  // remotes that were asked and gave no answer
};
PushCheck on_no_remote(Repository& repository, const std::vector<Pointer>& pointers,
                       const std::vector<RemoteConfig>& remotes);

// The pointers in the commits that git is about to push, each digest once. `lines` is what a pre-push hook reads from
// its standard input: one "LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID" per line, with zeros for a deleted ref
// (githooks(5)).
std::vector<Pointer> pointers_in_push(const std::string& root, const std::string& lines);

}  // namespace mlx::registry
