#include "infer/embedding.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "graph/passes/passes.h"

namespace mlx::infer {
namespace {

using graph::Op;

const graph::Node* node_that_makes(const graph::Graph& graph, graph::ValueId value) {
  for (const graph::Node& node : graph.nodes)
    if (std::ranges::find(node.outputs, value) != node.outputs.end()) return &node;
  return nullptr;
}

// What is known of a text's vector after some of its states.
class Sum {
 public:
  Sum(Pooled how, std::size_t width) : how_(how), sum_(width) {}

  // Rows of one state each, in order.
  void add(std::span<const float> rows) {
    for (std::size_t at = 0; at < rows.size(); at += sum_.size(), ++count_) {
      const std::span<const float> row = rows.subspan(at, sum_.size());
      for (std::size_t i = 0; i < row.size(); ++i) sum_[i] = with(sum_[i], double{row[i]});
    }
  }

  std::vector<float> vector() const {
    double by = how_.pooling == Pooling::kMean ? static_cast<double>(count_) : 1;
    if (how_.unit) {
      double squares = 0;
      for (const double x : sum_) squares += x * x;
      by = squares > 0 ? std::sqrt(squares) : 1;
    }
    std::vector<float> out(sum_.size());
    std::ranges::transform(sum_, out.begin(), [by](double x) { return static_cast<float>(x / by); });
    if (!std::ranges::all_of(out, [](float x) { return std::isfinite(x); }))
      fail(ErrorKind::kCorrupt, "the model's states hold NaN or infinity");
    return out;
  }

 private:
  double with(double before, double x) const {
    switch (how_.pooling) {
      case Pooling::kMean:
        return before + x;
      case Pooling::kFirst:
        return count_ == 0 ? x : before;
      case Pooling::kMax:
        return count_ == 0 || x > before || std::isnan(x) ? x : before;
      case Pooling::kLast:
        break;
    }
    return x;
  }

  Pooled how_;
  std::vector<double> sum_;
  std::size_t count_ = 0;  // of states
};

}  // namespace

nn::Model without_head(nn::Model model) {
  graph::Graph graph = graph::to_inference(model.graph);
  if (graph::is_encoder(graph)) return model;
  const bool language = graph::is_language_model(graph);
  const graph::Node* head = language ? node_that_makes(graph, graph.outputs[0]) : nullptr;
  if (head && head->op == Op::kSoftCap) head = node_that_makes(graph, head->inputs[0]);
  if (!head || (head->op != Op::kLinear && head->op != Op::kLinearGroups && head->op != Op::kLinearBlocks))
    fail(ErrorKind::kUsage, "the graph is no encoder, and not a language model that ends with a linear layer");
  graph.outputs = {head->inputs[0]};
  model.graph = graph::remove_dead(graph);
  graph::Weights::Map weights = model.weights->all();
  std::erase_if(weights, [&](const auto& each) { return model.graph.find(each.first) == graph::kNone; });
  model.weights = std::make_shared<const graph::Weights>(std::move(weights));
  return model;
}

const char* name_of(Pooling pooling) {
  return kPoolings[static_cast<std::size_t>(pooling)];
}

Pooling pooling_named(const std::string& name) {
  const auto* const found = std::ranges::find(kPoolings, name);
  if (found == std::end(kPoolings)) fail(ErrorKind::kCorrupt, "'{}' is no pooling", printable(name));
  return static_cast<Pooling>(found - kPoolings);
}

Pooled pooling_of(const nn::Model& model) {
  const Json config = parse_json(model.config, "the model's config");
  Pooled out{graph::is_encoder(graph::to_inference(model.graph)) ? Pooling::kMean : Pooling::kLast};
  if (config.contains("pooling")) out.pooling = pooling_named(json_string(config, "pooling", "the model's config"));
  if (config.contains("normalize")) out.unit = json_bool(config, "normalize", "the model's config");
  return out;
}

std::optional<Tokens> cut_to(std::size_t most, const Tokens& whole, const Tokens& bare) {
  const auto begin = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
  if (begin == whole.end() || whole.size() - bare.size() >= most) return std::nullopt;
  const std::size_t behind = static_cast<std::size_t>(whole.end() - begin) - bare.size();
  Tokens out(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(most - behind));
  out.insert(out.end(), whole.end() - static_cast<std::ptrdiff_t>(behind), whole.end());
  return out;
}

Embedder::Embedder(const Model& model, Pooled pooled, std::function<void()> check)
    : width_(model.graph().value(model.graph().outputs.at(0)).dims.back().size), pooled_(pooled) {
  if (graph::is_encoder(model.graph()))
    encoder_.emplace(model, std::move(check));
  else
    generator_.emplace(model, std::move(check));
}

std::vector<std::vector<float>> Embedder::embed(std::span<const Tokens> texts) {
  std::vector<std::vector<float>> out(texts.size());
  const auto width = static_cast<std::size_t>(width_);
  if (encoder_) {
    encoder_->encode(texts, [&](std::size_t text, std::span<const float> states) {
      Sum sum(pooled_, width);
      sum.add(states);
      out[text] = sum.vector();
    });
    return out;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Sum sum(pooled_, width);
    generator_->logits(texts[i], [&](std::span<const float> rows) { sum.add(rows); });
    out[i] = sum.vector();
  }
  return out;
}

}  // namespace mlx::infer
