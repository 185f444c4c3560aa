// The only place that turns a trained model into one ready to answer.

#include "infer/model.h"

#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"

namespace mlx::infer {
namespace {

constexpr kernels::DType kCaches[] = {kernels::DType::kF32, kernels::DType::kF16, kernels::DType::kS8};

nn::Model prepared(nn::Model model) {
  CHECK(model.weights);
  const graph::WithWeights raised = graph::raise(graph::to_inference(model.graph), *model.weights);
  auto [graph, weights] = graph::fuse(raised.graph, *raised.weights);
  model.graph = std::move(graph);
  model.weights = std::move(weights);
  return model;
}

}  // namespace

kernels::DType cache_named(std::string_view word) {
  for (const kernels::DType cache : kCaches)
    if (word == cache_word(cache)) return cache;
  fail(ErrorKind::kUsage, "a cache of '{}': expected f32, f16 or q8", word);
}

const char* cache_word(kernels::DType cache) {
  return cache == kernels::DType::kS8 ? "q8" : kernels::name_of(cache);
}

Model::Model(nn::Model model, kernels::Backend backend, Pool& pool, kernels::DType cache)
    : model_(prepared(std::move(model))),
      signature_(signature_of(model_)),
      backend_(backend),
      pool_(pool),
      cache_(cache) {
  if (cache != kernels::DType::kF32 && backend.can().own_memory)
    fail(ErrorKind::kUsage, "a cache in {} is for CPUs; that of a GPU is in f32", cache_word(cache));
}

}  // namespace mlx::infer
