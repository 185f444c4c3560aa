// Finds the pairs of layers that divide, and rebuilds the graph with one part of each. The tensors' side of it is in
// partition.cpp.

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/passes/partition.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kWeights = 1, kBias = 2, kLayerInputs = 3;

// Two layers and what lies between them: nodes, from the first layer to the second.
struct Pair {
  std::vector<std::size_t> nodes;
  std::vector<std::int64_t> rows, columns;  // the sections of the first layer's rows and of the second's columns
};

class Search {
 public:
  Search(const Graph& graph, int parts) : graph_(graph), parts_(parts), uses_(count_uses(graph)) {}

  std::optional<Pair> pair_from(std::size_t first) const {
    if (!is_layer(graph_.nodes[first])) return std::nullopt;
    Pair pair{{first}, {}, {}};
    ValueId at = graph_.nodes[first].outputs[0];
    std::vector<std::int64_t> sections;  // of `at`; none: any
    for (;;) {
      const std::optional<std::size_t> next = only_reader(at);
      if (!next) return std::nullopt;
      const Node& node = graph_.nodes[*next];
      pair.nodes.push_back(*next);
      if (is_layer(node) && node.attrs.activation == Activation::kNone) break;
      const Divided how = op_def(node.op).divided;
      if (how == Divided::kNever) return std::nullopt;
      if (how != Divided::kElements) {
        const std::vector<std::int64_t> needed = sections_for(node, how);
        if (!sections.empty() && sections != needed) return std::nullopt;
        if (pair.rows.empty()) pair.rows = needed;
        const bool same = width_of(node.outputs[0]) == width_of(at);
        sections = same ? needed : std::vector{width_of(node.outputs[0])};
      }
      at = node.outputs[0];
    }
    if (pair.rows.empty()) pair.rows = {width_of(at)};
    pair.columns = sections.empty() ? pair.rows : sections;
    require_even(pair);
    return pair;
  }

 private:
  // A linear layer whose weights are its own.
  bool is_layer(const Node& node) const {
    if (node.op != Op::kLinear || node.inputs.size() > kLayerInputs || node.outputs.size() > 1) return false;
    return std::all_of(node.inputs.begin() + kWeights, node.inputs.end(), [&](ValueId id) {
      return id != kNone && graph_.value(id).role == Role::kParameter && uses_[index(id)] == 1;
    });
  }

  // The node that reads the value, as its first input, if it is the only one.
  std::optional<std::size_t> only_reader(ValueId id) const {
    if (uses_[index(id)] != 1) return std::nullopt;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].inputs[0] == id) return i;
    return std::nullopt;
  }

  std::int64_t width_of(ValueId id) const { return graph_.value(id).dims.back().size; }

  std::vector<std::int64_t> sections_for(const Node& node, Divided how) const {
    const std::int64_t width = width_of(node.inputs[0]);
    if (how == Divided::kHalves) return {width / 2, width / 2};
    const std::int64_t heads = node.attrs.heads, keys = node.attrs.kv_heads > 0 ? node.attrs.kv_heads : heads;
    require_divides(node, heads, "heads");
    require_divides(node, keys, "heads of keys and values");
    const std::int64_t head = width / (heads + 2 * keys);
    return {heads * head, keys * head, keys * head};
  }

  void require_divides(const Node& node, std::int64_t count, const char* what) const {
    if (count % parts_ != 0)
      fail(ErrorKind::kUsage, "'{}' has {} {}, which {} ranks do not divide", node.name, count, what, parts_);
  }

  void require_even(const Pair& pair) const {
    for (const std::int64_t size : pair.rows) require_divides(graph_.nodes[pair.nodes.front()], size, "outputs");
    for (const std::int64_t size : pair.columns) require_divides(graph_.nodes[pair.nodes.back()], size, "inputs");
  }

  const Graph& graph_;
  int parts_;
  std::vector<int> uses_;
};

// What a node is in its pair.
enum class Place : std::uint8_t { kOutside, kFirst, kBetween, kSecond };

// Builds the graph of a part.
class Builder {
 public:
  Builder(const Graph& forward, const std::vector<Pair>& pairs, int parts, int part)
      : forward_(forward), places_(forward.nodes.size(), Place::kOutside), ids_(forward.values.size(), kNone) {
    out_.partition.parts = parts;
    out_.partition.part = part;
    out_.graph.symbols = forward.symbols;
    for (const Pair& pair : pairs) divide(pair);
  }

  Partitioned build() {
    for (std::size_t i = 0; i < forward_.values.size(); ++i)
      if (forward_.values[i].role != Role::kActivation) copy_value(i);
    for (const ValueId id : forward_.inputs) out_.graph.inputs.push_back(ids_[index(id)]);
    for (std::size_t i = 0; i < forward_.nodes.size(); ++i) copy_node(forward_.nodes[i], places_[i]);
    for (const ValueId id : forward_.outputs) out_.graph.outputs.push_back(ids_[index(id)]);
    return std::move(out_);
  }

 private:
  void divide(const Pair& pair) {
    for (const std::size_t node : pair.nodes) places_[node] = Place::kBetween;
    places_[pair.nodes.front()] = Place::kFirst;
    places_[pair.nodes.back()] = Place::kSecond;
    const Node &first = forward_.nodes[pair.nodes.front()], &second = forward_.nodes[pair.nodes.back()];
    const auto cut = [&](const Node& node, std::size_t input, Cut how) {
      if (input < node.inputs.size()) out_.partition.cuts[forward_.value(node.inputs[input]).name] = std::move(how);
    };
    cut(first, kWeights, {0, pair.rows});
    cut(first, kBias, {0, pair.rows});
    cut(second, kWeights, {1, pair.columns});
    cut(second, kBias, {-1, {}});  // or the sum would have it several times
  }

  void copy_value(std::size_t i) {
    Value value = forward_.values[i];
    if (const auto cut = out_.partition.cuts.find(value.name); cut != out_.partition.cuts.end()) {
      if (cut->second.axis < 0 && out_.partition.part > 0) return;
      if (cut->second.axis >= 0) value.dims[static_cast<std::size_t>(cut->second.axis)].size /= out_.partition.parts;
    }
    ids_[i] = static_cast<ValueId>(out_.graph.values.size());
    out_.graph.values.push_back(std::move(value));
  }

  void copy_node(const Node& node, Place place) {
    Graph& graph = out_.graph;
    Attrs attrs = node.attrs;
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == kNone ? kNone : ids_[index(id)]);
    while (inputs.back() == kNone) inputs.pop_back();  // a bias that another part has
    if (place == Place::kFirst) inputs[0] = graph.add(Op::kReplicate, {}, {inputs[0]}, node.name + ".whole")[0];
    if (place == Place::kBetween && op_def(node.op).divided == Divided::kHeads) {
      attrs.heads /= out_.partition.parts;
      attrs.kv_heads /= out_.partition.parts;
    }
    const bool outside = place == Place::kOutside && !node.outputs.empty() && node.outputs[0] != kNone;
    std::vector<ValueId> made =
        outside ? graph.add_shaped(node.op, attrs, std::move(inputs), forward_.value(node.outputs[0]).dims, node.name)
                : graph.add(node.op, attrs, std::move(inputs), node.name);
    if (place == Place::kSecond) {
      graph.values[index(made[0])].name += ".part";
      made = graph.add(Op::kAllReduce, {}, {made[0]}, node.name + ".sum");
    }
    for (std::size_t k = 0; k < made.size(); ++k) {
      const ValueId id = node.outputs[k];
      if (id == kNone || forward_.value(id).role != Role::kActivation) continue;
      ids_[index(id)] = made[k];
      graph.values[index(made[k])].name = forward_.value(id).name;
    }
  }

  const Graph& forward_;
  std::vector<Place> places_;
  std::vector<ValueId> ids_;  // by value of the forward graph
  Partitioned out_;
};

}  // namespace

Partitioned partition(const Graph& forward, int parts, int part) {
  CHECK(parts >= 1 && part >= 0 && part < parts);
  const Search search(forward, parts);
  std::vector<Pair> pairs;
  std::vector<char> taken(forward.nodes.size(), 0);
  for (std::size_t i = 0; i < forward.nodes.size(); ++i) {
    if (taken[i] != 0) continue;
    std::optional<Pair> pair = search.pair_from(i);
    if (!pair) continue;
    for (const std::size_t node : pair->nodes) taken[node] = 1;
    pairs.push_back(std::move(*pair));
  }
  if (pairs.empty()) fail(ErrorKind::kUsage, "the model has no layers that several ranks can divide");
  return Builder(forward, pairs, parts, part).build();
}

}  // namespace mlx::graph
