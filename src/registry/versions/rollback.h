// Where an alias goes back to. Used by `mlx rollback` and by servers that take a release back.
#pragma once

#include <string>

#include "registry/versions/artifacts.h"

namespace mlx::registry {

struct Rollback {
  Version from, to;
};
// `to`: a selector or reference of a version that the alias once named, or "" for the one before. Versions that the
// alias has gone back from are not before, also if it named them again: after v1, v2, v3 and a move to v2 it is v1.
// kNotFound for no such alias and where there is nothing before, kUsage for what is no alias and for a version that it
// never named, kConflict for an alias that was moved on both sides of a merge.
Rollback plan_rollback(Repository& repository, const std::string& artifact, const std::string& alias,
                       const std::string& to = {});
// Moves the alias there, with a message that begins with "rollback from v3". kConflict if it was moved since the plan.
void roll_back(Repository& repository, const std::string& alias, const Rollback& rollback, const std::string& why);

}  // namespace mlx::registry
