// Batches by the kind of data.

#include "train/batches.h"

#include "base/error.h"

namespace mlx::train {

std::unique_ptr<data::BatchSource> batches_of(const data::Split& split, const nn::Preprocessing& preprocessing,
                                              data::Loader::Options options, Pool& pool) {
  options.normalization = preprocessing.normalization;
  return data::image_batches(split.images, std::move(options), pool);
}

void check_fits(const nn::Model& model, const data::Description& data) {
  const nn::Preprocessing& p = model.preprocessing;
  if (p.height != 0 && (p.height != data.height || p.width != data.width || p.channels != data.channels)) {
    fail(ErrorKind::kUsage, "the model takes images of {}x{}x{}, the data holds {}x{}x{}", p.height, p.width,
         p.channels, data.height, data.width, data.channels);
  }
  if (!model.labels.empty() && static_cast<std::size_t>(data.outputs) > model.labels.size()) {
    fail(ErrorKind::kUsage, "the data has {} classes, the model {}", data.outputs, model.labels.size());
  }
}

}  // namespace mlx::train
