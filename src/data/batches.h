// Batches as a graph is fed them, for any kind of data. A Dataset (dataset.h) makes the sources; training, evaluation
// and calibration use them.
//
// The contents of a batch depend on (seed, epoch, index) alone, so that a resumed run continues with the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "data/images/augment.h"

namespace mlx::data {

struct BatchOptions {
  std::int64_t batch = 128;
  std::uint64_t seed = 0;
  bool shuffle = false, drop_last = false;
  std::int64_t shuffle_buffer = 0;  // examples that a shuffle draws from at a time; 0: from all
  // The source gives share `rank` of `ranks` of each batch, of which `batch` is the size of all shares together, so
  // that every example of an epoch is on one rank. A rank that has no example in the last batch has one batch less.
  // `shares`: or so many, from `rank` on.
  int rank = 0, ranks = 1, shares = 1;
  std::int64_t context = 0;  // for kinds with windows: tokens per window
  bool raw = false;          // for kinds that can: leave normalization and augmentation to the graph
  Augment augment{};         // for images
};

struct BatchInput {
  const char* name = nullptr;  // of the graph's input; valid as long as the source
  const void* data = nullptr;
  std::vector<std::int64_t> dims;  // [count, …]
  bool of_all = false;             // shared by all examples, with other dims: each part of the batch gets the whole
};
struct BatchView {
  std::int64_t count = 0;  // examples: images, rows, windows of text
  std::int64_t units = 0;  // number of units (Kind::unit): images, rows, tokens
  std::vector<BatchInput> inputs;
  const void* target = nullptr;
  std::vector<std::int64_t> target_dims;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::int64_t batches() const = 0;   // in an epoch
  virtual std::int64_t examples() const = 0;  // in an epoch that drops none
  // Starts an epoch at batch `first` (resume). Then next() returns its batches in order, and nullptr at the end. What a
  // batch points to is valid until the next call. A new source starts at epoch 0.
  virtual void start(std::uint64_t epoch, std::int64_t first = 0) = 0;
  virtual const BatchView* next() = 0;
};

// The inputs of raw image batches (kernels/op.h, kAugment): u8[count,H,W,C], s32[count,6], f32[C,256]; with mixup also
// u8[count,H,W,C], s32[count,6], f32[1].
inline constexpr const char *kPixelsInput = "pixels", *kChangesInput = "changes", *kTableInput = "pixel_table";
inline constexpr const char *kPartnerPixelsInput = "partner_pixels", *kPartnerChangesInput = "partner_changes",
                            *kShareInput = "share";

}  // namespace mlx::data
