// The kinds of data, and their names in graphs, commands and records. The names of inputs and targets are stored in
// model.json and never change.
#pragma once

#include <cstdint>
#include <string>

namespace mlx::data {

// The kind of an example, which determines the graph input that it feeds: "images", "features" or "ids".
enum class Kind : std::uint8_t { kImages, kFeatures, kTokens };
// The kind of target: one class, any of several labels, numbers, or the token after each token. Classes and tokens are
// fed as "labels" (s32), the others as "targets" (f32).
enum class TargetKind : std::uint8_t { kClass, kLabels, kNumbers, kTokens };

const char* input_name(Kind kind);
const char* unit_name(Kind kind);         // what is counted: "images", "rows", "tokens"
const char* name_of(TargetKind targets);  // "class", "labels", "numbers", "tokens"

}  // namespace mlx::data
