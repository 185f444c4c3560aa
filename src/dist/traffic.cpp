// One rank's link as a queue: all ranks do the same at about the same time.
#include "dist/traffic.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace mlx::dist {
namespace {

// The sums of a step of one rank, by bucket.
std::vector<TreeSum> sums_of(const BucketLayout& layout, int rank, int ranks, int terms) {
  std::vector<TreeSum> sums;
  sums.reserve(layout.buckets.size());
  for (const BucketLayout::Bucket& of : layout.buckets)
    sums.emplace_back(of.elements, rank, ranks, terms, of.wire, of.bounds);
  return sums;
}

Traffic both(const Traffic& a, const Traffic& b) {
  return {a.bytes + b.bytes, a.messages + b.messages};
}

Traffic traffic_of(const BucketLayout& layout, int rank, int ranks, int terms) {
  Traffic out;
  for (const TreeSum& sum : sums_of(layout, rank, ranks, terms))
    out = both(out, both(total(sum.reducing()), total(sum.gathering())));
  return out;
}

// Begins to be sent at `ready` at the earliest.
struct Sending {
  double ready = 0;
  std::size_t bucket = 0;
  std::size_t round = 0;  // of the sum, and then of bringing its parts to all
  bool operator>(const Sending& other) const { return ready > other.ready; }
};

}  // namespace

Traffic traffic_of(const std::vector<SummedArray>& arrays, int ranks, int terms) {
  const BucketLayout layout = layout_of(arrays, ranks);
  Traffic most;
  for (int rank = 0; rank < ranks; ++rank) {
    const Traffic traffic = traffic_of(layout, rank, ranks, terms);
    if (traffic.bytes > most.bytes) most = traffic;
  }
  return most;
}

std::int64_t messages_at_once(const std::vector<SummedArray>& arrays, int ranks, int terms) {
  std::int64_t out = 0;
  for (const TreeSum& sum : sums_of(layout_of(arrays, ranks), 0, ranks, terms)) {
    std::int64_t most = 0;
    for (const Rounds& rounds : {sum.reducing(), sum.gathering()})
      for (const Traffic& round : rounds) most = std::max(most, round.messages);
    out += 2 * most;
  }
  return out;
}

double step_seconds(const std::vector<SummedArray>& arrays, int ranks, int terms, const Compute& compute,
                    const Link& link) {
  const BucketLayout layout = layout_of(arrays, ranks);
  const std::vector<TreeSum> sums = sums_of(layout, 0, ranks, terms);
  double elements = 0, filled = 0;
  for (const BucketLayout::Bucket& bucket : layout.buckets) elements += static_cast<double>(bucket.elements);
  std::priority_queue<Sending, std::vector<Sending>, std::greater<>> queue;
  for (std::size_t i = 0; ranks > 1 && i < sums.size(); ++i) {
    filled += static_cast<double>(layout.buckets[i].elements);
    queue.push({compute.backward + (compute.end - compute.backward) * filled / elements, i});
  }
  double free = 0, end = compute.end;  // free: when the link is
  while (!queue.empty()) {
    const Sending next = queue.top();
    queue.pop();
    const Rounds reducing = sums[next.bucket].reducing(), gathering = sums[next.bucket].gathering();
    const std::size_t to_reduce = reducing.size();
    const Traffic& traffic = next.round < to_reduce ? reducing[next.round] : gathering[next.round - to_reduce];
    free = std::max(free, next.ready) + static_cast<double>(traffic.bytes) / link.bytes_per_second +
           static_cast<double>(traffic.messages) * link.per_message;
    const double arrived = free + link.latency;
    end = std::max(end, arrived);
    const std::size_t round = next.round + 1;
    if (round == to_reduce + gathering.size()) continue;
    const bool waits = round == to_reduce && layout.buckets[next.bucket].owned;
    queue.push({waits ? std::max(arrived, compute.end) : arrived, next.bucket, round});
  }
  return end;
}

}  // namespace mlx::dist
