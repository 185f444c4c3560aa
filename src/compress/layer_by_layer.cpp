// The walk through the pieces. RTN and GPTQ put each group of layers into the graph as soon as it is rounded, so that
// the next one sees what it does; AWQ looks at the whole piece as it was, because scales of one layer change another.

#include "compress/layer_by_layer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "compress/awq.h"
#include "compress/gptq.h"
#include "compress/segments.h"
#include "compress/window_store.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"

namespace mlx::compress {
namespace {

using graph::Graph;
using graph::kNone;
using graph::ValueId;

constexpr std::int64_t kTokensAtOnce = 1024;
constexpr std::int64_t kSampleRows = 512, kFewestRows = 16, kMostOutputs = std::int64_t{1} << 24;

// Collects InputFacts, and with a Hessian that.
class Observer {
 public:
  // `rows`: how many will come, of which `wanted` are kept.
  Observer(std::int64_t inputs, std::int64_t rows, std::int64_t wanted, std::unique_ptr<Hessian> hessian)
      : inputs_(inputs),
        stride_(std::max<std::int64_t>(1, rows / wanted)),
        wanted_(wanted),
        squares_(static_cast<std::size_t>(inputs), 0.0),
        hessian_(std::move(hessian)) {}

  void add(std::span<const float> x) {
    for (std::size_t at = 0; at < x.size(); at += static_cast<std::size_t>(inputs_), ++rows_) {
      const std::span<const float> row = x.subspan(at, static_cast<std::size_t>(inputs_));
      for (std::size_t i = 0; i < row.size(); ++i)
        squares_[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
      if (rows_ % stride_ != 0 || kept_ == wanted_) continue;
      facts_.sample.insert(facts_.sample.end(), row.begin(), row.end());
      ++kept_;
    }
    if (hessian_) hessian_->add(x);
  }

  // A hundredth of the mean over all inputs is added to each, so that none is 0; all are 1 if nothing came in.
  InputFacts facts(const std::string& layer) {
    double mean = 0;
    for (const double square : squares_) mean += square / static_cast<double>(inputs_);
    if (!std::isfinite(mean)) fail(ErrorKind::kNo, "what '{}' takes is not finite on the calibration data", layer);
    for (const double square : squares_)
      facts_.importance.push_back(mean > 0 ? static_cast<float>((square + 0.01 * mean) / static_cast<double>(rows_))
                                           : 1.0f);
    return std::move(facts_);
  }

  const Hessian& hessian() const { return *hessian_; }

 private:
  std::int64_t inputs_, stride_, wanted_, rows_ = 0, kept_ = 0;
  std::vector<double> squares_;
  InputFacts facts_;
  std::unique_ptr<Hessian> hessian_;
};

std::shared_ptr<const graph::Weight> divided_vector(const graph::Weight& w, std::span<const std::int64_t> places,
                                                    std::span<const float> scales) {
  graph::Tensor out;
  out.shape = w.shape();
  out.shape.dtype = graph::DType::kF32;
  kernels::Shape flat = out.shape;
  flat.rank = 2, flat.dims[0] = 1, flat.dims[1] = out.shape.dims[0], flat.dtype = w.shape().dtype;
  const std::vector<float> from = row_of(graph::Weight(flat, w.data(), graph::Backing{}), 0);
  out.data.resize(out.shape.bytes());
  auto* const to = reinterpret_cast<float*>(out.data.data());
  std::ranges::copy(from, to);
  // Several inputs may be made of one output; they have the same scale.
  for (std::size_t i = 0; i < places.size(); ++i) to[places[i]] = from[static_cast<std::size_t>(places[i])] / scales[i];
  return share(std::move(out));
}

class Walk {
 public:
  Walk(const nn::Model& stored, const LayerPlan& plan, const TextWindows& windows, const Engine& engine,
       const data::MemoryBudget& budget, Progress& progress)
      : plan_(plan), windows_(windows), engine_(engine), budget_(budget), progress_(progress) {
    out_.model = stored;
    out_.model.graph = graph::to_inference(stored.graph);
    graph_ = out_.model.graph;
    weights_ = stored.weights->all();
    const GroupableLayers layers = groupable_layers(graph_, plan.widths[0]);
    out_.left = layers.left, out_.small = layers.small;
    for (const std::size_t node : layers.nodes) {
      QuantizedLayer layer;
      layer.name = graph_.nodes[node].name;
      layer.node = node;
      layer.stored_bytes = static_cast<std::int64_t>(weight_of(node)->data().size());
      out_.layers.push_back(std::move(layer));
    }
    nodes_ = layers.nodes;
  }

  QuantizedLayers run() {
    progress_.begin("quantizing", out_.layers.size(), "layers");
    const std::vector<Segment> segments = segments_of(graph_, nodes_);
    for (const Segment& segment : segments) {
      if (plan_.method == Method::kAwq)
        scale_and_round(segment);
      else
        round_in_turn(segment);
      if (&segment != &segments.back()) pass_on(segment);
    }
    progress_.end();
    finish();
    return std::move(out_);
  }

 private:
  const std::shared_ptr<const graph::Weight>& weight_of(std::size_t node) const {
    return weights_.at(graph_.value(graph_.nodes[node].inputs[1]).name);
  }
  QuantizedLayer& layer_at(std::size_t node) { return *std::ranges::find(out_.layers, node, &QuantizedLayer::node); }
  std::int64_t windows_at_once() const { return std::max<std::int64_t>(1, kTokensAtOnce / windows_.length); }

  std::vector<std::int64_t> dims_of(ValueId value, std::int64_t count) const {
    std::vector<std::int64_t> dims{count, windows_.length};
    const graph::Dims& all = graph_.value(value).dims;
    for (std::size_t i = 2; i < all.size(); ++i) dims.push_back(all[i].size);
    return dims;
  }

  // Of one window; f32 and s32 are as long.
  std::int64_t bytes_of(ValueId value) const {
    std::int64_t bytes = sizeof(float);
    for (const std::int64_t size : dims_of(value, 1)) bytes *= size;
    return bytes;
  }

  // What the segment gets in for these windows.
  const void* coming_in(std::int64_t first, std::int64_t count) {
    return between_ ? static_cast<const void*>(between_->read(first, count)) : windows_.window(first);
  }

  using Visit = std::function<void(std::int64_t first, std::int64_t count, ByteView)>;

  void each_coming_in(const Segment& segment, const Visit& visit) {
    for (std::int64_t first = 0; first < windows_.count; first += windows_at_once()) {
      const std::int64_t count = std::min(windows_at_once(), windows_.count - first);
      const auto* const data = static_cast<const std::uint8_t*>(coming_in(first, count));
      visit(first, count, {data, static_cast<std::size_t>(count * bytes_of(segment.from))});
    }
  }

  // Computes `wanted` for all windows, a few at a time.
  void each(const Segment& segment, ValueId wanted, const Visit& visit) {
    if (wanted == segment.from) return each_coming_in(segment, visit);
    const Graph piece = piece_of(graph_, segment, wanted);
    graph::Weights::Map used;
    for (const graph::Value& value : piece.values)
      if (graph::outlives_step(value.role)) used[value.name] = weights_.at(value.name);
    const auto in_f32 = std::make_shared<const graph::Weights>(nn::in_f32(piece, graph::Weights(std::move(used))));
    graph::SessionOptions options;
    options.backend = engine_.backend;
    graph::Session session(piece, in_f32, options, engine_.pool);
    for (std::int64_t first = 0; first < windows_.count; first += windows_at_once()) {
      progress_.check_interrupted();
      const std::int64_t count = std::min(windows_at_once(), windows_.count - first);
      session.run({{piece.inputs[0], coming_in(first, count), dims_of(segment.from, count)}});
      visit(first, count, session.output(piece.outputs[0]));
    }
  }

  Observer observe(const Segment& segment, const LayerGroup& group) {
    std::int64_t inputs = 0, outputs = 1;
    for (const std::size_t node : group.nodes) {
      inputs = weight_of(node)->shape().dims[1];
      outputs = std::max(outputs, weight_of(node)->shape().dims[0]);
    }
    auto hessian =
        plan_.method == Method::kGptq ? std::make_unique<Hessian>(inputs, engine_.backend, engine_.pool) : nullptr;
    Observer observer(inputs, windows_.count * windows_.length,
                      std::clamp(kMostOutputs / outputs, kFewestRows, kSampleRows), std::move(hessian));
    each(segment, group.input, [&](std::int64_t, std::int64_t, ByteView bytes) {
      observer.add({reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
    });
    return observer;
  }

  // One layer at each width, and what it loses.
  template <typename Round>
  void round(QuantizedLayer& layer, const std::shared_ptr<const graph::Weight>& weight, const InputFacts& facts,
             Round round_to) {
    const auto exact = product(facts.sample, scaled(*weight, {}, {}, engine_.pool), engine_);
    for (const WeightType& type : plan_.widths) {
      layer.widths.push_back(share(round_to(*fitting(type, weight->shape().dims[1]))));
      layer.errors.push_back(relative_error(exact, product(facts.sample, layer.widths.back(), engine_)));
    }
    progress_.advance(1);
  }

  void round_in_turn(const Segment& segment) {
    for (const LayerGroup& group : segment.groups) {
      Observer observer = observe(segment, group);
      const InputFacts facts = observer.facts(graph_.nodes[group.nodes[0]].name);
      std::optional<InverseFactor> factor;
      if (plan_.method == Method::kGptq) factor = inverse_factor(observer.hessian().sums(), kDampening, engine_.pool);
      for (const std::size_t node : group.nodes) {
        const std::shared_ptr<const graph::Weight> weight = weight_of(node);
        const std::string name = graph_.value(graph_.nodes[node].inputs[1]).name;
        QuantizedLayer& layer = layer_at(node);
        round(layer, weight, facts, [&](const WeightType& type) {
          return factor ? gptq(*weight, name, *factor, facts.importance, type, engine_.pool)
                        : round_as(type, *weight, name, engine_.pool, facts.importance);
        });
        put_rounded(graph_, weights_, node, layer.widths[0]);
      }
    }
  }

  void scale_and_round(const Segment& segment) {
    std::vector<std::size_t> nodes;
    for (const LayerGroup& group : segment.groups) nodes.insert(nodes.end(), group.nodes.begin(), group.nodes.end());
    std::vector<InputFacts> facts;
    for (const LayerGroup& group : segment.groups)
      facts.push_back(observe(segment, group).facts(graph_.nodes[group.nodes[0]].name));
    for (std::size_t i = 0; i < facts.size(); ++i) find_scales(segment.groups[i], nodes, facts[i]);
    for (std::size_t i = 0; i < facts.size(); ++i)
      for (const std::size_t node : segment.groups[i].nodes) {
        QuantizedLayer& layer = layer_at(node);
        const std::string name = graph_.value(graph_.nodes[node].inputs[1]).name;
        const auto weight = scaled(*weight_of(node), layer.columns, layer.rows, engine_.pool);
        round(layer, weight, facts[i],
              [&](const WeightType& type) { return round_as(type, *weight, name, engine_.pool, facts[i].importance); });
        put_rounded(graph_, weights_, node, layer.widths[0]);
      }
  }

  // Of one group: what its inputs are then goes to `facts`.
  void find_scales(const LayerGroup& group, std::span<const std::size_t> nodes, InputFacts& facts) {
    const std::optional<Fold> fold = fold_of(graph_, group, nodes);
    if (!fold) return;
    std::vector<NamedWeight> weights;
    for (const std::size_t node : group.nodes)
      weights.push_back({weight_of(node), graph_.value(graph_.nodes[node].inputs[1]).name});
    const std::vector<float> scales = awq_scales(weights, *fold, facts, plan_.widths[0], engine_);
    if (scales.empty()) return;
    facts = divided(facts, scales);
    for (const std::size_t node : group.nodes) layer_at(node).columns = scales;
    if (fold->layer)
      divide_outputs(*fold, scales);
    else
      for (const ValueId id : {fold->gamma, fold->beta})
        if (id != kNone) divide(id, fold->outputs, scales);
  }

  void divide_outputs(const Fold& fold, std::span<const float> scales) {
    QuantizedLayer& layer = layer_at(*fold.layer);
    layer.rows.assign(static_cast<std::size_t>(weight_of(*fold.layer)->shape().dims[0]), 1.0f);
    for (std::size_t i = 0; i < scales.size(); ++i) layer.rows[static_cast<std::size_t>(fold.outputs[i])] = scales[i];
    const graph::Node& node = graph_.nodes[*fold.layer];
    if (node.inputs.size() > 2 && node.inputs[2] != kNone) divide(node.inputs[2], fold.outputs, scales);
  }

  void divide(ValueId parameter, std::span<const std::int64_t> places, std::span<const float> scales) {
    const std::string& name = graph_.value(parameter).name;
    changed_[name] = weights_[name] = divided_vector(*weights_.at(name), places, scales);
  }

  // What comes out of the segment goes into the next one.
  void pass_on(const Segment& segment) {
    const std::int64_t bytes = bytes_of(segment.to);
    const bool in_place = between_ && between_->bytes() == bytes;
    std::unique_ptr<WindowStore> next;
    if (!in_place) next = std::make_unique<WindowStore>(windows_.count, bytes, budget_);
    WindowStore& to = in_place ? *between_ : *next;
    each(segment, segment.to, [&](std::int64_t first, std::int64_t count, ByteView data) {
      CHECK(static_cast<std::int64_t>(data.size()) == count * bytes);
      to.write(first, count, data.data());
    });
    if (next) between_ = std::move(next);
  }

  void finish() {
    graph::Weights::Map weights = out_.model.weights->all();
    for (const auto& [name, weight] : changed_) weights[name] = weight;
    out_.model.weights = std::make_shared<const graph::Weights>(std::move(weights));
  }

  LayerPlan plan_;
  const TextWindows& windows_;
  Engine engine_;
  data::MemoryBudget budget_;
  Progress& progress_;
  QuantizedLayers out_;
  Graph graph_;                  // with the layers so far as they are rounded
  graph::Weights::Map weights_;  // of graph_, and of what it was
  graph::Weights::Map changed_;  // norms and biases that scales were folded into
  std::vector<std::size_t> nodes_;
  std::unique_ptr<WindowStore> between_;  // null: the ids
};

}  // namespace

const char* name_of(Method method) {
  switch (method) {
    case Method::kRtn:
      return "rtn";
    case Method::kGptq:
      return "gptq";
    case Method::kAwq:
      return "awq";
  }
  return "?";
}

std::optional<Method> method_named(std::string_view name) {
  for (const Method method : {Method::kRtn, Method::kGptq, Method::kAwq})
    if (name == name_of(method)) return method;
  return std::nullopt;
}

QuantizedLayers quantize_layers(const nn::Model& stored, const LayerPlan& plan, const TextWindows& windows,
                                const Engine& engine, const data::MemoryBudget& budget, Progress& progress) {
  return Walk(stored, plan, windows, engine, budget, progress).run();
}

nn::Model with_widths(const QuantizedLayers& quantized, std::span<const std::size_t> widths, Pool& pool) {
  CHECK(widths.size() == quantized.layers.size());
  nn::Model out = quantized.model;
  graph::Weights::Map weights = out.weights->all();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const QuantizedLayer& layer = quantized.layers[i];
    if (widths[i] < layer.widths.size()) {
      put_rounded(out.graph, weights, layer.node, layer.widths[widths[i]]);
    } else if (!layer.columns.empty() || !layer.rows.empty()) {
      graph::Node& node = out.graph.nodes[layer.node];
      const auto weight = scaled(*weights.at(out.graph.value(node.inputs[1]).name), layer.columns, layer.rows, pool);
      const std::string name = layer.name + ".scaled";
      const kernels::Shape& shape = weight->shape();
      weights[name] = weight;
      node.inputs[1] = out.graph.parameter(name, {graph::Dim::of(shape.dims[0]), graph::Dim::of(shape.dims[1])});
    }
  }
  finish_groups(out, std::move(weights));
  return out;
}

}  // namespace mlx::compress
