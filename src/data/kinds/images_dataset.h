// Datasets of labelled images.
#pragma once

#include "data/dataset.h"
#include "data/kinds/images.h"

namespace mlx::data {

extern const Kind images_kind;
// All of the images, shared.
DatasetPtr make_dataset(std::shared_ptr<const Images> images);
inline DatasetPtr make_dataset(Images images) {
  return make_dataset(std::make_shared<const Images>(std::move(images)));
}

}  // namespace mlx::data
