// The content that operations name. Used by sync (what travels with them) and gc (what they keep).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "registry/operations/operation.h"
#include "registry/operations/operation_stage.h"

namespace mlx::registry {

// Trees of versions, and blobs that always travel with their operation.
struct Content {
  std::vector<Digest> manifests, series, others;
  std::vector<std::pair<std::string, Digest>> versions;  // artifact and digest of each manifest
};
// Of those operations that `wanted` says, where it is set.
using Wanted = std::function<bool(const Operation& operation, const Json& body)>;
Content content_of(const std::vector<Operation>& operations, const Wanted& wanted = {});
Content content_of(OperationStage& operations, const Wanted& wanted = {});
// The kinds of those that name blobs which are no series.
inline constexpr const char* kKindsWithBlobs[] = {"attach", "run.start", "actor.describe"};

std::string text_in(const Json& body, const char* key);  // "" where no text stands under the key
// The digest that stands under a key of a body; nullopt where there is none.
std::optional<Digest> digest_in(const Json& body, const char* key);

// The patch of what was not committed when a run started: `diff` of its code (canonical JSON), where it is a digest.
std::optional<Digest> code_diff_of(const std::string& code);

}  // namespace mlx::registry
