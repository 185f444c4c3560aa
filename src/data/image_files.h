// Images in files of their own, outside of datasets, as `mlx predict` is given them: PGM and PPM, and IDX (plain or
// gzip), which holds many.
#pragma once

#include <string>

#include "base/progress.h"
#include "data/idx_reader.h"

namespace mlx::data {

// What a file is, its first bytes say. kCorrupt and kUsage as the formats say; kNotFound.
IdxImages read_image_file(const std::string& path, Progress& progress);

}  // namespace mlx::data
