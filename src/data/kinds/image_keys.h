// The keys of [data] for images: augmentation, and how photos become images.
#pragma once

#include "data/dataset.h"

namespace mlx::data {

void read_image_keys(TomlReader& data, Reading& reading);
void write_image_keys(const Reading& reading, Json& data);
// `skip_bad` as a model keeps it, so that it is evaluated by the rule that it was trained by: a share as text, a count,
// or null.
Json skip_bad_json(const PhotoOptions& photos);
// The same back from an object with or without that key. Throws kCorrupt naming `what`.
void read_skip_bad(const Json& json, const std::string& what, PhotoOptions& photos);
const char* image_key_set(const Reading& reading);

}  // namespace mlx::data
