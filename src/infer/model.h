// A model ready to answer: its signature, its graph for inference (batch norms folded, activations fused) and the
// weights of that graph. Predicting, evaluating, calibrating and serving open sessions (session.h) or generators
// (generate.h) on it and have no preparation of their own.
//
// Weights are counted (graph::Weights): what folding leaves as it is, all that is not beside a batch norm, is shared
// with the model that was loaded, and the packed forms that kernels want are made once for all sessions.
//
// Threads: a Model does not change once it is made. Any number of threads may read one and open sessions on it; each
// session and generator is used by one thread at a time. The model and its pool outlive them.
#pragma once

#include "base/parallel.h"
#include "infer/signature.h"
#include "kernels/backend.h"
#include "nn/model.h"

namespace mlx::infer {

class Model {
 public:
  // `pool` outlives the model. Throws as signature_of().
  Model(nn::Model model, kernels::Backend backend, Pool& pool);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Signature& signature() const { return signature_; }
  // Family, preprocessing, labels, tokenizer; the graph and the weights are those of inference.
  const nn::Model& about() const { return model_; }
  const graph::Graph& graph() const { return model_.graph; }
  kernels::Backend backend() const { return backend_; }
  Pool& pool() const { return pool_; }

 private:
  nn::Model model_;
  Signature signature_;
  kernels::Backend backend_;
  Pool& pool_;
};

}  // namespace mlx::infer
