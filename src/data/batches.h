// Batches as a graph is fed them, whatever the data is. Used by training, evaluation and calibration; a kind of data is
// one maker.
//
// What a batch holds depends on (seed, epoch, index) alone, so that a resumed run goes on with the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "data/loader.h"

namespace mlx::data {

struct BatchView {
  std::int64_t count = 0;  // examples
  const void* input = nullptr;
  std::vector<std::int64_t> input_dims;  // [count, …]
  const void* target = nullptr;
  std::vector<std::int64_t> target_dims;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::int64_t batches() const = 0;  // in an epoch
  // Starts an epoch at batch `first` (resume); next() then gives its batches in order, nullptr at the end. What a batch
  // points to is valid until the next call.
  virtual void start(std::uint64_t epoch, std::int64_t first = 0) = 0;
  virtual const BatchView* next() = 0;
};

// f32[count,H,W,C] and s32[count]; `examples` and `pool` outlive it. kUsage as Loader says.
std::unique_ptr<BatchSource> image_batches(const Examples& examples, Loader::Options options, Pool& pool);

}  // namespace mlx::data
