// Whether the data of pointers is on a remote. Behind `mlx push --check` and git's pre-push hook.
#pragma once

#include <string>
#include <vector>

#include "registry/sync/sync.h"
#include "registry/versions/pointers.h"

namespace mlx::registry {

// A remote that does not exist yet holds nothing. One that gives no answer (its keys are locked, it cannot be reached)
// does not keep the others from being asked.
struct PushCheck {
  std::vector<Pointer> lacking;  // whose versions are on none of the remotes that answered
  std::size_t answered = 0;
  struct Broken {
    std::string remote;
    std::size_t operations = 0;
  };
  std::vector<Broken> broken;  // remotes that have lost operations: nobody can clone them, whatever else they hold
  struct Silent {
    std::string remote;
    Error why;
  };
  std::vector<Silent> silent;  // remotes that were asked and gave no answer
};
PushCheck on_no_remote(Repository& repository, const std::vector<Pointer>& pointers,
                       const std::vector<RemoteConfig>& remotes);

// The pointers in the commits that git is about to push, each digest once. `lines` is what a pre-push hook reads from
// its standard input: "LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID" a line, zeros for a ref that is deleted (githooks(5)).
std::vector<Pointer> pointers_in_push(const std::string& root, const std::string& lines);

}  // namespace mlx::registry
