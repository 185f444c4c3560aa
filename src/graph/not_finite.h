// Where a NaN or an infinity comes from. Used by training once a loss is not finite.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/session.h"

namespace mlx::graph {

struct NotFinite {
  std::string node, op;  // "block3.mlp.up", "linear"; empty where `value` was so before any node ran
  std::string value;     // what is not finite
};

// Runs the nodes that `options` names one by one up to the first that writes what is not finite, from parameters,
// states and inputs that are; nullopt where everything is. The session is left in the middle of that step.
std::optional<NotFinite> find_not_finite(Session& session, const std::vector<Feed>& feeds, RunOptions options);

// The first parameter or state, by name, that is not finite; "" where all are.
std::string first_not_finite(const Tensors& tensors);
bool all_finite(ByteView numbers, DType dtype);  // integers always are

}  // namespace mlx::graph
