// A model made ready for answering: its inference graph in a session, with plans for a few batch sizes.
//
// Used by batcher.cpp, from one thread at a time. Batches are filled up to the next power of two, so that plans are few
// and all of them exist before the first request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/session.h"
#include "nn/model.h"

namespace mlx::serve {

class Predictor {
 public:
  // kUsage where the model does not map one batch of images to logits.
  Predictor(const nn::Model& model, std::int64_t max_batch, kernels::Level level, Pool& pool);

  const std::string& input_name() const { return input_name_; }
  std::int64_t example_size() const { return example_; }  // height * width * channels
  std::int64_t classes() const { return classes_; }
  std::int64_t max_batch() const { return max_batch_; }

  void warm_up();                                 // plans every batch size
  float* input() { return batch_.data(); }        // room for max_batch normalised examples
  const float* run(std::int64_t count);           // logits[count, classes] of the first `count`; until the next run
  std::int64_t padded(std::int64_t count) const;  // the batch size that `count` examples are computed in

 private:
  std::int64_t height_, width_, channels_, example_, max_batch_, classes_ = 0;
  std::string input_name_;
  graph::ValueId images_ = graph::kNone, logits_ = graph::kNone;
  std::vector<float> batch_;
  std::unique_ptr<graph::Session> session_;
};

}  // namespace mlx::serve
