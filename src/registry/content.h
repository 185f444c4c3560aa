// The content that operations name. Used by sync (what travels with them) and gc (what they keep).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "registry/operation.h"

namespace mlx::registry {

// Trees of versions, and blobs that always travel with their operation.
struct Content {
  std::vector<Digest> manifests, series, others;
  std::vector<std::pair<std::string, Digest>> versions;  // artifact and digest of each manifest
};
Content content_of(const std::vector<Operation>& operations);

// The patch of what was not committed when a run started: `diff` of its code (canonical JSON), where it is a digest.
std::optional<Digest> code_diff_of(const std::string& code);

}  // namespace mlx::registry
