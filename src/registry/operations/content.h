// The content that operations name, as their kinds' rows say (kind.h). All that sends, fetches, keeps and checks
// content reads it here.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"
#include "registry/operations/operation_stage.h"

namespace mlx::registry {

// Of one or several operations, by role.
class Content {
 public:
  const std::vector<Digest>& of(Role role) const& { return by_role_[static_cast<std::size_t>(role)]; }
  std::vector<Digest> of(Role role) && { return std::move(by_role_[static_cast<std::size_t>(role)]); }
  std::vector<Digest> blobs() const;  // of all that are blobs
  bool travels() const;               // whether anything of it goes with the operation
  void add(const Kinds& kinds, const Operation& operation, const Json& body);

  std::vector<std::pair<std::string, Digest>> versions;  // artifact and digest of those that are made

 private:
  std::array<std::vector<Digest>, kRoles> by_role_;
};

// An operation of a kind that is not known names nothing.
Content content_of(const Kinds& kinds, const Operation& operation);
// Of those operations that `wanted` says, where it is set.
using Wanted = std::function<bool(const Operation& operation, const Json& body)>;
Content content_of(const Kinds& kinds, OperationStage& operations, const Wanted& wanted = {});

}  // namespace mlx::registry
