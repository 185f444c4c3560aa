// Static int8 quantization: per-channel symmetric weights, activations calibrated on data, first-to-last layer; what a
// layer's input range is comes from calibration (a percentile or the least mean-square error of the histogram). Source:
// Jacob et al., CVPR 2018; Wu et al., arXiv:2004.09602.
#pragma once

#include <string>

#include "kernels/table.h"
#include "nn/model.h"
#include "registry/versions/runs.h"

namespace mlx::compress {

struct Calibration {
  std::int64_t examples = 1024;  // the first so many of a seeded shuffle
  std::uint64_t seed = 1;
};

// Largest magnitudes (or unsigned ranges) of every quantized layer's input, by value name.
graph::Tensors calibrate(const nn::Model& model, const data::Examples& examples, const Calibration& calibration,
                         kernels::Level level, Pool& pool, Progress& progress);
nn::Model quantize_int8(const nn::Model& model, const graph::Tensors& ranges);

struct QuantizeOptions {
  std::string model, dataset, split;  // references
  Calibration calibration;
  bool point = false;  // move models/NAME.mlx too
  bool force = false;
  std::string title;
  kernels::Level level = kernels::Level::kOneDnn;
};
struct QuantizeOutcome {
  bool unchanged = false;
  registry::Version from, to;
};
QuantizeOutcome quantize_version(registry::Repository& repository, const QuantizeOptions& options, Progress& progress);

}  // namespace mlx::compress
