// A lower bound for the time of a training step on this machine, as train.py defines it: no kernel here is faster.
#pragma once

#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "graph/graph.h"

// In seconds: the sum over operations of max(FLOPs ÷ rate, bytes ÷ bandwidth of a large copy), both with all of the
// pool's threads. The rate of a product or convolution is oneDNN's at that shape, measured alone with warm caches and
// packed weights. For everything else, and if oneDNN does not serve it, it is the rate of the fastest large matrix
// product. `sizes` by symbol of the graph.
double floor_seconds(const mlx::graph::Graph& graph, const std::vector<std::int64_t>& sizes, mlx::Pool& pool);
