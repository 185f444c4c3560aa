#include "train/loop/validation.h"

#include <memory>

#include "base/error.h"
#include "base/progress.h"
#include "nn/model.h"
#include "train/evaluate/evaluate.h"

namespace mlx::train {

Validation validate(const nn::Built& built, const graph::Tensors& tensors, const TrainingData& data,
                    kernels::Backend backend, Pool& pool, const Interruption& interruption) {
  nn::Model model;
  model.config = built.config;
  model.graph = built.graph;
  model.weights = std::make_shared<const graph::Weights>(graph::Weights::viewing(tensors));
  model.preprocessing = data.preprocessing;
  NoProgress silent(interruption);
  try {
    const Evaluation evaluation = evaluate(model, *data.valid, backend, pool, silent);
    Validation out{{{"loss", evaluation.loss}}};
    out.metrics.insert(out.metrics.end(), evaluation.metrics.begin(), evaluation.metrics.end());
    return out;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kInterrupted) throw;
    return {.interrupted = true};
  }
}

}  // namespace mlx::train
