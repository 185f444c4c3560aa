// Quantizes a language model's linear layers from the first to the last, each on what comes in from the layers before
// as they are then: calibration data goes through the model piece by piece (segments.h). Everything is computed by
// portable kernels and sums in one order, so that the result has the same bits on every machine and for any number of
// threads. In memory are the data between two pieces, or a part of it (window_store.h), the weights of one piece in
// f32, and what one layer is rounded by. Used by quantize_text.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "compress/group_weights.h"
#include "compress/products.h"
#include "compress/text_windows.h"
#include "data/spool.h"
#include "nn/model.h"

namespace mlx::compress {

// To the nearest, by scales that count inputs by their squares; gptq.h; awq.h.
enum class Method { kRtn, kGptq, kAwq };
const char* name_of(Method method);  // "rtn", "gptq", "awq"
std::optional<Method> method_named(std::string_view name);

struct LayerPlan {
  Method method = Method::kGptq;
  std::vector<WeightType> widths;  // the fewest bits first; all have the same unit()
};

struct QuantizedLayer {
  std::string name;
  std::size_t node = 0;             // its index in the graph's nodes
  std::vector<SharedLayer> widths;  // the fewest bits first
  std::vector<double> errors;       // the relative error of its output, for each (products.h)
  // AWQ: what the weights' columns are multiplied by, and the rows divided by; empty: nothing.
  std::vector<float> columns, rows;
  std::int64_t stored_bytes = 0;  // of its weights as the model has them
};

struct QuantizedLayers {
  nn::Model model;  // the inference form, with these layers as they were, and scales folded into norms and biases
  std::vector<QuantizedLayer> layers;
  // Linear layers whose inputs are not whole groups, and those that got small blocks.
  std::int64_t left = 0, small = 0;
};
// `stored`: with the weights as they are stored. Throws kUsage if no layer can be quantized, kCorrupt if weights are
// not finite, kNo if activations are not.
QuantizedLayers quantize_layers(const nn::Model& stored, const LayerPlan& plan, const TextWindows& windows,
                                const Engine& engine, const data::MemoryBudget& budget, Progress& progress);

// The model with each layer at one of its widths, by their index; their number: with the weights that it had.
nn::Model with_widths(const QuantizedLayers& quantized, std::span<const std::size_t> widths, Pool& pool);

}  // namespace mlx::compress
