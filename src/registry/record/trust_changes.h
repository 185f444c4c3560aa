// Changes to [people] of mlx.toml that depend on what this repository has recorded. Used by `mlx key`.
#pragma once

#include <string>
#include <vector>

#include "registry/keys/declared_people.h"
#include "registry/repository.h"

namespace mlx::registry {

struct TrustChange {
  std::string name;
  Digest key;
  std::vector<Right> may = {};  // all that they may from now on; empty: what they may already, or commit
  bool replace = false;         // their other keys are retired
  bool again = false;           // also where this key was retired
  bool up_to_now = false;       // counts for what the recorded history holds, and for nothing later
};
// What [people] is to say of somebody after that. Nobody loses what they signed while it counted. kRefused where a
// retired key would count again unasked.
TrustedPerson changed_person(Repository& repository, const TrustChange& change);

// Keys of the recorded history that stand nowhere in [people], not even as retired ones.
std::vector<Digest> undeclared_signers(Repository& repository);
// Where the recorded history begins with operations that nobody signed: [people] says up to where they count.
void declare_unsigned(Repository& repository, bool dry_run);

}  // namespace mlx::registry
