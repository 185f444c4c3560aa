// Batches for training and evaluation: shuffled, augmented and normalised. The pool's threads prepare the next one
// while a step leaves them without work, and finish it when it is requested. A GPU augments and normalises itself, so
// for it the stored bytes are copied, with the random draws. The contents of a batch depend on (seed, epoch, index)
// alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "data/images/augment.h"
#include "data/images/normalize.h"
#include "data/kinds/images.h"
#include "kernels/image_change.h"

namespace mlx::data {

// Stored images, and the random draws for each.
struct RawImages {
  std::vector<std::uint8_t> pixels;  // count * H * W * C
  std::vector<kernels::ImageChange> changes;
};
struct Batch {
  std::int64_t count = 0;
  std::vector<float> images;  // count * H * W * C, normalised
  std::vector<std::int32_t> labels;
  std::vector<float> shares;  // with mixup, instead of labels: count * classes; each row sums to 1
  // With Options::raw, instead of images: the input from which kernels (op_list.h, kAugment) make the same bits.
  RawImages raw, partners;  // partners: with mixup, the image that each image is mixed with; raw may have more behind
  float share = 1;          // share of the image itself; the rest is its partner's
};

class Loader {
 public:
  struct Options {
    std::int64_t batch = 128;
    std::uint64_t seed = 0;
    bool shuffle = false, drop_last = false;
    std::int64_t shuffle_buffer = 0;      // BatchOptions
    int rank = 0, ranks = 1, shares = 1;  // BatchOptions; mixup also reads images of the others
    Augment augment{};
    Normalization normalization{};
    bool raw = false;                  // leave images to the kernels
    std::optional<IndexSet> subset{};  // the images used; nullopt: all. Draws are keyed by the place in it
  };
  // `images` and `pool` must outlive the loader. Throws kUsage if shift or erase are larger than the images.
  Loader(const Images& images, Options options, Pool& pool);
  ~Loader();
  std::int64_t batches() const;  // in an epoch
  // Starts an epoch at batch `first` (resume). Then next() returns its batches in order, and nullptr at the end. A
  // batch is valid until the next call.
  void start(std::uint64_t epoch, std::int64_t first = 0);
  const Batch* next();
  // The table that normalises images; valid as long as the loader.
  const PixelTable& table() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::data
