// Windows of text in memory: what language models are calibrated and compared on. Used by layer_by_layer.cpp and
// likeness.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace mlx::compress {

struct TextWindows {
  std::int64_t count = 0, length = 0;     // windows, and the tokens of one
  std::vector<std::int32_t> ids, labels;  // [count][length]; a label of less than 0 is not predicted
  const std::int32_t* window(std::int64_t index) const { return ids.data() + index * length; }
  std::int64_t predicted() const;
};

// At most so many windows: the first of a shuffle with this seed, or without one the first of the text.
struct WantedWindows {
  std::int64_t length = 0, most = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;
};
// Throws kUsage if the text is shorter than a window and the token behind it (shuffled), or than two tokens.
TextWindows read_windows(const data::Dataset& dataset, const data::Preprocessing& preprocessing,
                         const WantedWindows& wanted, Pool& pool);
TextWindows first_of(const TextWindows& windows, std::int64_t count);

}  // namespace mlx::compress
