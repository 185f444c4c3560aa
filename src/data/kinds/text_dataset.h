// Datasets of a text, one sequence of tokens.
#pragma once

#include "data/dataset.h"
#include "data/kinds/text.h"

namespace mlx::data {

extern const Kind text_kind;
// All of the text, shared. Its items are tokens.
DatasetPtr make_dataset(Text text);

// The text of the named split of a version. Throws kUsage if the split holds something else.
Text load_text(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
               Progress& progress);

}  // namespace mlx::data
