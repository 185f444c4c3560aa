// The only place that turns a trained model into one ready to answer.

#include "infer/model.h"

#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"

namespace mlx::infer {
namespace {

nn::Model prepared(nn::Model model) {
  CHECK(model.weights);
  const graph::WithWeights raised = graph::raise(graph::to_inference(model.graph), *model.weights);
  auto [graph, weights] = graph::fuse(raised.graph, *raised.weights);
  model.graph = std::move(graph);
  model.weights = std::move(weights);
  return model;
}

}  // namespace

Model::Model(nn::Model model, kernels::Backend backend, Pool& pool)
    : model_(prepared(std::move(model))), signature_(signature_of(model_)), backend_(backend), pool_(pool) {}

}  // namespace mlx::infer
