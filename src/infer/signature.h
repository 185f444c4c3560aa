// A model's inputs and outputs, by the names and types of the Open Inference Protocol v2. Derived from the model alone;
// used by `mlx predict` and by serving.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/kind.h"
#include "nn/model.h"

namespace mlx::infer {

enum class Takes : std::uint8_t {
  kImages,   // one tensor of pixels
  kRows,     // named columns, numbers and categories
  kText,     // a prompt, which the model continues
  kTensors,  // the graph's own inputs
};

struct TensorSpec {
  std::string name;
  std::string datatype;             // "UINT8", "INT32", "INT64", "FP32", "FP64", "BYTES" …
  std::vector<std::int64_t> shape;  // -1: any size
};

struct Signature {
  Takes takes = Takes::kTensors;
  // For images and rows: the meaning of the outputs. Classes: "probabilities" FP32 [-1,C], "label" BYTES [-1], "class"
  // INT64 [-1]. Labels: "probabilities" FP32 [-1,L]. Numbers: one FP64 [-1] for each, with its name.
  data::TargetKind gives = data::TargetKind::kClass;
  std::vector<TensorSpec> inputs, outputs;
  std::vector<std::string> labels;  // the name of each class, label or number; a class without a label has its index
  std::int64_t example = 0;         // the number of floats in one image or row
  std::int64_t context = 0;         // for text: the most tokens that the model takes
  bool batches = false;             // several requests can be computed together: infer::Session pads batches

  std::int64_t width() const { return static_cast<std::int64_t>(labels.size()); }  // outputs for each example
};

// Throws kCorrupt if the model's parts contradict each other, such as labels and classes.
Signature signature_of(const nn::Model& model);

}  // namespace mlx::infer
