// Batches for training and evaluation: shuffled, augmented and normalised by all threads of the pool when they are
// asked for. For a GPU, which augments and normalises by itself, copied as they are stored, with what was drawn. What a
// batch holds depends on (seed, epoch, index) alone. 128 images of 28x28 cost some 85 microseconds on
// one core, a step of the demo's training 18 milliseconds: a thread that prepares batches ahead would take more from
// the training's cores than it gives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "data/augment.h"
#include "data/images.h"
#include "data/normalize.h"
#include "kernels/image_change.h"

namespace mlx::data {

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

class Loader {
 public:
  struct Options {
    std::int64_t batch = 128;
    std::uint64_t seed = 0;
    bool shuffle = false, drop_last = false;
    Augment augment{};
    Normalization normalization{};
    bool raw = false;                  // images are left to the kernels
    std::optional<IndexSet> subset{};  // the images used; none: all. Draws are keyed by the place in it
  };
  // `images` and `pool` outlive the loader. Throws kUsage where shift or erase are larger than the images.
  Loader(const Images& images, Options options, Pool& pool);
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
