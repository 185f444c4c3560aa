// The floor of a training step on this machine, as train.py states it: what no kernel that is here would go below.
#pragma once

#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "graph/graph.h"

// Seconds: the sum over operations of max(FLOPs ÷ rate, bytes ÷ bandwidth of a large copy), both with all threads of
// the pool. The rate of a product or convolution is oneDNN's at that shape, measured by itself with nothing else in the
// caches' way and its weights packed already; of all else, and where oneDNN does not serve it, that of the fastest
// large matrix product. `sizes` by symbol of the graph.
double floor_seconds(const mlx::graph::Graph& graph, const std::vector<std::int64_t>& sizes, mlx::Pool& pool);
