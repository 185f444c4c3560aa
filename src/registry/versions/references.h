// The one grammar of references to versions, and what a reference means here.
#pragma once

#include <optional>
#include <string>

#include "registry/versions/artifacts.h"

namespace mlx::registry {

// NAME, NAME@SEL (latest, vN, alias, tag, ~N, ALIAS~N, previous, at least 8 hex digits), each with an optional :path.
struct Reference {
  std::string name, selector, path;
};
Reference parse_reference(const std::string& text);  // kUsage
// An alias or tag that means different versions in clones that were merged is kConflict and names them.
// A bare NAME means what the worktree's pointer names, and `latest` where there is none. run:ID means the version that
// the run made. kNotFound with a did-you-mean.
Version resolve(Repository& repository, const std::string& reference);
std::optional<Version> try_resolve(Repository& repository, const std::string& reference);

}  // namespace mlx::registry
