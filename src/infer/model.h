// A model ready to answer: its signature, its inference graph (batch norms folded, activations fused) and that graph's
// weights. Prediction, evaluation, calibration and serving open sessions (session.h) or generators (generate.h) on it,
// and prepare nothing themselves.
//
// Weights are reference-counted (graph::Weights). Those that folding does not change, that is all except those beside a
// batch norm, are shared with the loaded model. The kernels' packed forms are made once for all sessions.
//
// Threads: a Model does not change once it is made. Any number of threads may read one and open sessions on it; each
// session and generator is used by one thread at a time. The model and its pool outlive them.
#pragma once

#include <string_view>

#include "base/parallel.h"
#include "infer/signature.h"
#include "kernels/backend.h"
#include "nn/model.h"

namespace mlx::infer {

// How keys and values are kept while a text is written: f32; f16; or s8, eight bits with scales
// (kernels/cache_bytes.h), whose word is "q8". kUsage for another word.
kernels::DType cache_named(std::string_view word);
const char* cache_word(kernels::DType cache);

class Model {
 public:
  // `pool` outlives the model. Throws as signature_of(); kUsage for a cache that the backend does not have.
  Model(nn::Model model, kernels::Backend backend, Pool& pool, kernels::DType cache = kernels::DType::kF32);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Signature& signature() const { return signature_; }
  // Family, preprocessing, labels, tokenizer. Graph and weights are those for inference.
  const nn::Model& about() const { return model_; }
  const graph::Graph& graph() const { return model_.graph; }
  kernels::Backend backend() const { return backend_; }
  Pool& pool() const { return pool_; }
  kernels::DType cache() const { return cache_; }

 private:
  nn::Model model_;
  Signature signature_;
  kernels::Backend backend_;
  Pool& pool_;
  kernels::DType cache_;
};

}  // namespace mlx::infer
