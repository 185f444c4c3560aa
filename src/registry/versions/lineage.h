// What a version was made from, and what was made from it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "registry/versions/artifacts.h"

namespace mlx::registry {

enum class NodeKind { kDataset, kModel, kRun, kCheckpoint };
const char* node_kind_name(NodeKind kind);  // "dataset", "model", "run", "checkpoint"

struct LineageNode {
  std::string label;  // "clf@v2", "run:3f…", "data/fashion@v1", "step 12 of run:3f…"
  NodeKind kind = NodeKind::kDataset;
  Digest digest;          // of a version or a checkpoint; zero for a run
  std::string run;        // of a run; for a checkpoint a run that has it, "" if none has it any more
  std::int64_t step = 0;  // of the checkpoint
};
struct Lineage {
  std::vector<LineageNode> nodes;          // nodes[0] is the one asked for
  std::vector<std::pair<int, int>> edges;  // from → to: `to` was made from `from`
};
Lineage lineage(Repository& repository, const Version& version);

}  // namespace mlx::registry
