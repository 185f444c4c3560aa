// Computes a model's outputs for batches of examples. Used by prediction, evaluation, calibration and serving.
//
// A session is used by one thread at a time; sessions of one model share its weights and its pool.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batches.h"
#include "graph/session/session.h"
#include "infer/model.h"

namespace mlx::infer {

// Of a session on the model's backend.
graph::SessionOptions session_options(const Model& model);

struct SessionOptions {
  std::int64_t max_batch = 64;          // capacity of input(), in examples
  std::vector<graph::ValueId> observe;  // other values of the model's graph that value() returns
};

// The network's output, before softmax or units: values[rows][width]. Valid until the session's next run.
struct Logits {
  const float* values = nullptr;
  std::int64_t rows = 0;  // examples; for text, tokens
  std::int64_t width = 0;
};

class Session {
 public:
  // Throws kUsage if max_batch is below 1. `model` must outlive the session.
  explicit Session(const Model& model, const SessionOptions& options = {});

  const Model& model() const { return model_; }

  // Images and rows, one or many: the caller writes `count` examples of signature().example floats into input(),
  // normalised as in training (data::normalize, data::write_features), then runs them. The batch is padded with zeros
  // to the next power of two, at most max_batch, so that few sizes are planned.
  float* input();
  Logits run(std::int64_t count);
  std::int64_t max_batch() const { return max_batch_; }
  std::int64_t padded(std::int64_t count) const;  // the batch size that `count` examples are computed with
  void warm_up();                                 // plans every batch size

  // The first `count` examples of a batch of any kind of data, without padding: each size is planned when it first
  // occurs.
  Logits run(const data::BatchView& batch, std::int64_t count);

  // The graph's own inputs, fed by value of model().graph(). For models of kTensors.
  void run(const std::vector<graph::Feed>& feeds) { session_.run(feeds); }

  // The bytes and shape of an output, or of an observed value, after the last run; valid until the next run.
  ByteView value(graph::ValueId value) const { return session_.output(value); }
  kernels::Shape shape(graph::ValueId value) const { return session_.output_shape(value); }

 private:
  Logits logits() const;

  const Model& model_;
  std::int64_t max_batch_;
  std::vector<float> input_;
  graph::Session session_;
};

}  // namespace mlx::infer
