// Quantization of a model. Static int8 takes every layer whose weights belong to it alone: weights are symmetric, with
// one scale for each output channel; activations have one scale each, found by calibration on data. It works for models
// over images, rows and text. Source: Jacob et al., CVPR 2018; Wu et al., arXiv:2004.09602. Language models may have
// weights in groups or blocks instead (weight_type.h).
#pragma once

#include <optional>
#include <string>

#include "compress/group_weights.h"
#include "compress/layer_by_layer.h"
#include "compress/widths.h"
#include "data/dataset.h"
#include "infer/model.h"
#include "kernels/backend.h"
#include "nn/model.h"
#include "registry/versions/runs.h"

namespace mlx::compress {

struct Calibration {
  std::int64_t examples =
      0;  // images, rows or windows of text: the first of a seeded shuffle; 0: calibration_examples()
  std::uint64_t seed = 1;
};
// The default number: 1,024 images or rows, 128 windows of text.
std::int64_t calibration_examples(const data::Kind& kind);

// The calibrated magnitudes of every quantized layer's input and output, by value name. Throws kUsage if the model does
// not take what the dataset holds.
graph::Tensors calibrate(const infer::Model& model, const data::Dataset& dataset, const Calibration& calibration,
                         Progress& progress);
nn::Model quantize_int8(const infer::Model& model, const graph::Tensors& ranges);

// Weights in groups or blocks, rounded on calibration data; what it loses is measured on held-out text.
struct TextOptions {
  LayerPlan plan;
  Bound bound;
  std::string data, split;     // held-out; "": the dataset of the calibration, its split valid or else test
  std::int64_t windows = 256;  // at most so many of it
};

struct QuantizeOptions {
  std::string model, dataset, split;  // references; no dataset if weights are rounded without
  Calibration calibration;
  std::optional<WeightType> type;   // without data
  std::optional<TextOptions> text;  // with data; none of these: int8 with ranges
  bool point = false;               // move models/NAME.mlx too
  bool force = false;
  std::string title;
  data::MemoryBudget budget;  // of the data; changes no bit
  kernels::Backend backend = kernels::best_backend();
};
struct QuantizeOutcome {
  bool unchanged = false;
  registry::Version from, to;
  std::string record;  // JSON: the run's summary; with TextOptions it says what is lost, with a type how many layers
};
// What it would do to weights in groups or blocks, without a bound that makes layers wider. Nothing is stored. Throws
// as quantize_version(), and kUsage for int8 with ranges.
struct QuantizePlan {
  registry::Version from;
  LayerPlans plans;
};
QuantizePlan plan_version(registry::Repository& repository, const QuantizeOptions& options, Progress& progress);
QuantizeOutcome quantize_version(registry::Repository& repository, const QuantizeOptions& options, Progress& progress);

}  // namespace mlx::compress
