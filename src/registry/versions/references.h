// The grammar of references to versions, and their resolution.
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
// Resolves a reference. A bare NAME means what the worktree's pointer names, or `latest` without a pointer. run:ID
// means the version that the run made. Throws kNotFound with a did-you-mean; kConflict, with names, for an alias or tag
// that means different versions in merged clones.
Version resolve(Repository& repository, const std::string& reference);
std::optional<Version> try_resolve(Repository& repository, const std::string& reference);

}  // namespace mlx::registry
