// Photos of a split as images of one size: read from the store's packs, decoded on all threads, kept in memory while
// they fit.
#pragma once

#include "data/dataset.h"
#include "data/kinds/images.h"
#include "data/kinds/photo_file.h"
#include "data/splits.h"

namespace mlx::data {

// Without reading photos if [data] or a model gives the size, else from their headers. Throws kUsage for photos of
// different sizes, and as list_photos().
Images describe_photos(const StoredSplit& split, const Reading& reading);
// Decodes every photo once, so that a bad one is found before the first step. Bad photos are left out as far as the
// reading allows, otherwise throws kCorrupt or kUsage with the name of the first. The store must outlive the result.
Images load_photos(const StoredSplit& split, const Reading& reading, Progress& progress);

// The versions of the libraries that decode the photos of a split, on which pixels depend; "" if it has no photos.
std::string photo_libraries(const StoredSplit& split);

// For `mlx predict`, which needs no labels: the photos of a split, nullopt if it has none. kUsage if it holds something
// else than images.
std::optional<std::vector<PhotoFile>> photos_in(const store::Store& store, const Digest& manifest,
                                                const std::string& split, const Division* division = nullptr);

}  // namespace mlx::data
