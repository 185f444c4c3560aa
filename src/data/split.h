// One split of a dataset in memory, of whatever kind: what training, evaluation and the commands above know of data
// before they ask for batches (batches.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/dataset.h"
#include "store/store.h"

namespace mlx::data {

// What an example is, and thereby which input of a graph it feeds: "images", "features" or "ids".
enum class Kind : std::uint8_t { kImages, kFeatures, kTokens };
// What is to be learned of it: one class, any of several labels, numbers, or the token behind each token. Classes and
// tokens are fed as "labels" (s32), the others as "targets" (f32).
enum class TargetKind : std::uint8_t { kClass, kLabels, kNumbers, kTokens };

const char* input_name(Kind kind);
const char* target_name(TargetKind targets);
const char* unit_name(Kind kind);  // what is counted: "images", "rows", "tokens"

struct Description {
  Kind kind = Kind::kImages;
  TargetKind targets = TargetKind::kClass;
  std::int64_t count = 0;                            // of images or rows; of text: tokens
  std::int64_t height = 0, width = 0, channels = 0;  // of an image
  int outputs = 0;                                   // classes
  std::vector<std::string> names;                    // of the outputs
};

struct Split {
  Description about;
  Examples images;  // where that is its kind
};

Description describe(const Examples& examples);
Split as_split(Examples examples);
// The same of the named split of a version; kNotFound and kCorrupt as load_split() and describe_split() say.
Description describe(const store::Store& store, const Digest& manifest, const std::string& split);
Split load(const store::Store& store, const Digest& manifest, const std::string& split, Progress& progress);
// The examples at `indices` (ascending), in that order.
Split pick(const Split& from, const std::vector<std::int64_t>& indices);

}  // namespace mlx::data
