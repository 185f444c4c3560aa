// The content that operations name, according to their kinds' rows (kind.h). Everything that sends, fetches, keeps or
// checks content reads it from here.
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

// The content of one or several operations, by role.
class Content {
 public:
  const std::vector<Digest>& of(Role role) const& { return by_role_[static_cast<std::size_t>(role)]; }
  std::vector<Digest> of(Role role) && { return std::move(by_role_[static_cast<std::size_t>(role)]); }
  std::vector<Digest> blobs() const;  // all digests that are blobs
  bool travels() const;               // true if any of it travels with the operation
  void add(const Kinds& kinds, const Operation& operation, const Json& body);

  std::vector<std::pair<std::string, Digest>> versions;  // artifact and digest of the versions that they make

 private:
  std::array<std::vector<Digest>, kRoles> by_role_;
};

// An operation of an unknown kind names nothing.
Content content_of(const Kinds& kinds, const Operation& operation);
// Selects operations; if empty, all are taken.
using Wanted = std::function<bool(const Operation& operation, const Json& body)>;
Content content_of(const Kinds& kinds, OperationStage& operations, const Wanted& wanted = {});

}  // namespace mlx::registry
