// Batches as a graph is fed them, whatever the data is. A Dataset (dataset.h) makes the sources; training, evaluation
// and calibration use them.
//
// What a batch holds depends on (seed, epoch, index) alone, so that a resumed run goes on with the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "data/augment.h"

namespace mlx::data {

struct BatchOptions {
  std::int64_t batch = 128;
  std::uint64_t seed = 0;
  bool shuffle = false, drop_last = false;
  std::int64_t context = 0;  // of kinds with windows: how many tokens one has
  bool raw = false;          // of kinds that can: normalization and augmentation are left to the graph
  Augment augment{};         // of images
};

struct BatchInput {
  const char* name = nullptr;  // the graph's; valid for as long as the source
  const void* data = nullptr;
  std::vector<std::int64_t> dims;  // [count, …]
  bool of_all = false;             // one for all examples, of other dims: a part of the batch has it whole
};
struct BatchView {
  std::int64_t count = 0;  // examples: images, rows, windows of text
  std::int64_t units = 0;  // what is counted (Kind::unit): images, rows, tokens
  std::vector<BatchInput> inputs;
  const void* target = nullptr;
  std::vector<std::int64_t> target_dims;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::int64_t batches() const = 0;   // in an epoch
  virtual std::int64_t examples() const = 0;  // in an epoch that drops none
  // Starts an epoch at batch `first` (resume). next() then gives its batches in order, nullptr at the end. What a batch
  // points to is valid until the next call. A new source stands at the beginning of epoch 0.
  virtual void start(std::uint64_t epoch, std::int64_t first = 0) = 0;
  virtual const BatchView* next() = 0;
};

// What raw batches of images feed (kernels/op.h, kAugment): u8[count,H,W,C], s32[count,6], f32[C,256]; with mixup also
// u8[count,H,W,C], s32[count,6], f32[1].
inline constexpr const char *kPixelsInput = "pixels", *kChangesInput = "changes", *kTableInput = "pixel_table";
inline constexpr const char *kPartnerPixelsInput = "partner_pixels", *kPartnerChangesInput = "partner_changes",
                            *kShareInput = "share";

}  // namespace mlx::data
