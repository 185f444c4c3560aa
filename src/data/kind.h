// What kinds of data there are, and the names by which graphs, commands and records know them. The names of inputs and
// targets stand in model.json and never change.
#pragma once

#include <cstdint>
#include <string>

namespace mlx::data {

// What an example is, and thereby which input of a graph it feeds: "images", "features" or "ids".
enum class Kind : std::uint8_t { kImages, kFeatures, kTokens };
// What is to be learned of it: one class, any of several labels, numbers, or the token behind each token. Classes and
// tokens are fed as "labels" (s32), the others as "targets" (f32).
enum class TargetKind : std::uint8_t { kClass, kLabels, kNumbers, kTokens };

const char* input_name(Kind kind);
const char* unit_name(Kind kind);         // what is counted: "images", "rows", "tokens"
const char* name_of(TargetKind targets);  // "class", "labels", "numbers", "tokens"

}  // namespace mlx::data
