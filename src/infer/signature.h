// What a model takes and what it answers, by the names and types of the Open Inference Protocol v2. Read off the model
// alone; used by `mlx predict` and by serving.
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
  kTensors,  // the graph's own inputs, as they are
};

struct TensorSpec {
  std::string name;
  std::string datatype;             // "UINT8", "INT32", "INT64", "FP32", "FP64", "BYTES" …
  std::vector<std::int64_t> shape;  // -1: any size
};

struct Signature {
  Takes takes = Takes::kTensors;
  // Of images and rows: what the outputs mean. Classes: "probabilities" FP32 [-1,C], "label" BYTES [-1], "class" INT64
  // [-1]. Labels: "probabilities" FP32 [-1,L]. Numbers: one FP64 [-1] for each, with its name.
  data::TargetKind gives = data::TargetKind::kClass;
  std::vector<TensorSpec> inputs, outputs;
  std::vector<std::string> labels;  // of each class, label or number; a class without a label has its index
  std::int64_t example = 0;         // floats that one image or row is to the network
  std::int64_t context = 0;         // of text: the most tokens that the model sees
  bool batches = false;             // several requests can be computed together: infer::Session fills up batches

  std::int64_t width() const { return static_cast<std::int64_t>(labels.size()); }  // numbers for each example
};

// kCorrupt where the model's parts contradict one another, such as labels and classes.
Signature signature_of(const nn::Model& model);

}  // namespace mlx::infer
