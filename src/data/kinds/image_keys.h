// The keys of [data] for images: augmentation, and how photos become images.
#pragma once

#include "data/dataset.h"

namespace mlx::data {

void read_image_keys(TomlReader& data, Reading& reading);
void write_image_keys(const Reading& reading, Json& data);
const char* image_key_set(const Reading& reading);

}  // namespace mlx::data
