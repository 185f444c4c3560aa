// Finds the origin of a NaN or an infinity. Used by training once a loss is not finite.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/session/session.h"

namespace mlx::graph {

struct NotFinite {
  std::string node, op;  // "block3.mlp.up", "linear"; empty if `value` was not finite before any node ran
  std::string value;     // the value that is not finite
};

// Runs the nodes of `options` one by one up to the first that writes a non-finite value, starting from finite
// parameters, states and inputs. nullopt if everything is finite. The session is left in the middle of that step.
std::optional<NotFinite> find_not_finite(Session& session, const std::vector<Feed>& feeds, RunOptions options);

// The name of the first non-finite parameter or state in order of names; "" if all are finite.
std::string first_not_finite(const Tensors& tensors);
bool all_finite(ByteView numbers, DType dtype);  // integers always are

}  // namespace mlx::graph
