// What all ways to quantize a version have in common. Used by quantize.cpp and quantize_text.cpp.
#pragma once

#include "base/json.h"
#include "compress/quantize.h"
#include "work/work.h"

namespace mlx::compress {

// The work without its parameters and its data.
work::Work quantize_work(const QuantizeOptions& options, const registry::Version& model);
// NaN would become an integer, and nobody would see it again. Throws kCorrupt, with the weights' name.
void check_finite(const nn::Model& model);
// Throws kUsage for an encoder, which is quantized without data.
void check_no_encoder(const nn::Model& model, const registry::Version& version);
// Throws kUsage if the model's activations need ranges, and for an encoder.
void check_language_model(const nn::Model& model, const registry::Version& version);
// Of linear layers how many were quantized, how many were left, and how many of the first got small blocks.
void add_layer_counts(std::int64_t layers, std::int64_t left, std::int64_t small, Json& summary);

}  // namespace mlx::compress
