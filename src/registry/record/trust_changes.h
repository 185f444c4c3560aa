// Changes to [people] of mlx.toml that depend on the recorded history. Used by `mlx key`.
#pragma once

#include <string>
#include <vector>

#include "registry/keys/declared_people.h"
#include "registry/repository.h"

namespace mlx::registry {

struct TrustChange {
  std::string name;
  Digest key;
  std::vector<Right> may = {};  // all rights from now on; empty: the present ones, or commit
  bool replace = false;         // retire their other keys
  bool again = false;           // accept the key even if it was retired
  bool up_to_now = false;       // the key counts for the recorded history, and for nothing later
};
// The person's new entry in [people] after the change. What they signed while it counted still counts. Throws kRefused
// if a retired key would count again without `again`.
TrustedPerson changed_person(Repository& repository, const TrustChange& change);

// Keys that signed recorded history but are not in [people], not even as retired ones.
std::vector<Digest> undeclared_signers(Repository& repository);
// If the recorded history begins with unsigned operations, declares in [people] up to where they count.
void declare_unsigned(Repository& repository, bool dry_run);

}  // namespace mlx::registry
