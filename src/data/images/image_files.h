// Image files outside of datasets, as `mlx predict` takes them: PGM and PPM, and IDX (plain or gzip), which holds many.
#pragma once

#include <string>

#include "base/progress.h"
#include "data/readers/idx_reader.h"

namespace mlx::data {

// The first bytes tell the format. Throws kCorrupt and kUsage as the formats do, kNotFound.
IdxImages read_image_file(const std::string& path, Progress& progress);

}  // namespace mlx::data
