// The tree in which micro-batches are summed: a sum of n terms is the sum of its first half and the sum of the rest.
// Floating-point addition is commutative and not associative, so whoever adds in this tree gets the same bits, on
// whichever ranks the terms are.
#pragma once

#include <vector>

namespace mlx::dist {

// Consecutive terms [begin, end) of the tree over `terms`.
struct Terms {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
  int middle() const { return begin + size() / 2; }
  bool operator==(const Terms&) const = default;
};

// The terms that a rank has: all ranks have about as many.
inline Terms terms_of(int rank, int ranks, int terms) {
  const auto from = [&](long of) { return static_cast<int>(of * terms / ranks); };
  return {from(rank), from(rank + 1)};
}

// Whether the tree over [0, terms) has a node that is the sum of exactly `of`.
inline bool is_node(Terms of, int terms) {
  Terms node{0, terms};
  while (node.size() > of.size())
    node = of.begin < node.middle() ? Terms{node.begin, node.middle()} : Terms{node.middle(), node.end};
  return node == of;
}

// The fewest nodes whose sums hold all of `held`, in order.
inline std::vector<Terms> nodes_of(Terms held, int terms) {
  std::vector<Terms> nodes;
  for (int at = held.begin; at < held.end; ++at) {
    nodes.push_back({at, at + 1});
    while (nodes.size() > 1 && is_node({nodes[nodes.size() - 2].begin, at + 1}, terms)) {
      nodes.pop_back();
      nodes.back().end = at + 1;
    }
  }
  return nodes;
}

}  // namespace mlx::dist
