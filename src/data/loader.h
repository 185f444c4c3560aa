// Batches for training and evaluation: shuffled, augmented and normalised by all threads of the pool when they are
// asked for; for a GPU, which augments and normalises by itself, copied as they are stored, with what was drawn. What a
// batch holds depends on (seed, epoch, index) alone. 128 images of 28x28 cost some 85 microseconds on
// one core, a step of the demo's training 18 milliseconds: a thread that prepares batches ahead would take more from
// the training's cores than it gives.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "data/dataset.h"
#include "data/normalize.h"
#include "kernels/image_change.h"

namespace mlx::data {

struct Augment {
  int shift = 0;      // random translation by up to so many pixels, filled with zero
  bool flip = false;  // mirrored left to right, half of the time
  int erase = 0;      // side of a random square set to the mean, 0 for none
  double mixup = 0;   // images are mixed in pairs by shares drawn from Beta(mixup, mixup); 0: none
  bool operator==(const Augment&) const = default;
};

// Images as they are stored, and what is drawn for each.
struct RawImages {
  std::vector<std::uint8_t> pixels;  // count * H * W * C
  std::vector<kernels::ImageChange> changes;
};
struct Batch {
  std::int64_t count = 0;
  std::vector<float> images;  // count * H * W * C, normalised
  std::vector<std::int32_t> labels;
  std::vector<float> shares;  // with mixup, in place of labels: count * classes, of which each row sums to 1
  // With Options::raw, in place of images: what kernels (op_list.h, kAugment) make the same bits of.
  RawImages raw, partners;  // partners: with mixup, of each image the one that it is mixed with
  float share = 1;          // of each image itself, the rest its partner's
};

// The order of one epoch's examples: a Fisher-Yates shuffle of 0 … count-1, keyed by Philox.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch);

class Loader {
 public:
  struct Options {
    std::int64_t batch = 128;
    std::uint64_t seed = 0;
    bool shuffle = false, drop_last = false;
    Augment augment;
    Normalization normalization;
    bool raw = false;                  // images are left to the kernels
    std::vector<std::int64_t> subset;  // indices of the examples used; empty for all
  };
  // `examples` and `pool` outlive the loader. Throws kUsage where shift or erase are larger than the images.
  Loader(const Examples& examples, Options options, Pool& pool);
  ~Loader();
  std::int64_t batches() const;  // in an epoch
  // Starts an epoch at batch `first` (resume); next() then gives its batches in order, nullptr at the end. The batch is
  // valid until the next call.
  void start(std::uint64_t epoch, std::int64_t first = 0);
  const Batch* next();
  // By which images are normalised; valid for as long as the loader.
  const PixelTable& table() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::data
