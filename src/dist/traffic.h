// What the ranks of a data-parallel training send in a step, and how long a step takes, computed and not measured: for
// plans, and for more ranks than can be started here.
#pragma once

#include <vector>

#include "dist/bucket_layout.h"
#include "dist/tree_sum.h"

namespace mlx::dist {

// Of the rank that sends most. The sums are those of GradientSum.
Traffic traffic_of(const std::vector<SummedArray>& arrays, int ranks, int terms);
// The messages that a rank sends and receives at the same time, if all sums of a step are on their way.
std::int64_t messages_at_once(const std::vector<SummedArray>& arrays, int ranks, int terms);

// What a network does with messages (Hockney 1994): one arrives `latency` after its last byte has left, and a rank
// sends one after another, each of which costs it `per_message`.
struct Link {
  double latency = 0;           // seconds
  double bytes_per_second = 1;  // of a rank
  double per_message = 0;       // seconds
};

// When the arrays of a step are there on a rank, in seconds from its begin: evenly, in their order, in the last
// micro-batch's backward pass.
struct Compute {
  double backward = 0;  // it begins
  double end = 0;
};

// Until a rank has all sums of a step. Buckets are sent while the backward pass runs, as GradientSum does; the parts of
// owned ones after it, without the time that the optimizer takes.
double step_seconds(const std::vector<SummedArray>& arrays, int ranks, int terms, const Compute& compute,
                    const Link& link);

}  // namespace mlx::dist
