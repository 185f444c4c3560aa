// The prepare functions of the kernels that are compiled once for AVX-512 and once for AVX2, one file a family.
// MLX_ISA, avx512 or avx2, names their namespace. Used by the files of this folder and of kernels/avx512.
//
// These files hold raw pointers and functions of internal linkage only: an inline function or template that other files
// share could be emitted here with AVX-512 code and chosen by the linker for all (tests/house checks the symbols).
// The bits of f32 results do not depend on the instruction set: each element accumulates in one order, sums over lanes
// are one tree of sixteen partial sums (vector.h), multiply-adds are written out, never contracted by the compiler.
// Only how many elements are computed side by side differs.
#pragma once

#include "kernels/plan.h"

namespace mlx::kernels::MLX_ISA {

bool prepare_linear(const Problem& problem, Plan& plan);  // f32, forward and both backwards
// Convolution of up to four input channels, f32: forward and backward to the weights.
bool prepare_conv_first(const Problem& problem, Plan& plan);
bool prepare_conv_first_weights(const Problem& problem, Plan& plan);
// Convolution of any number of channels in one group, f32: forward and to the data; to the weights.
bool prepare_conv(const Problem& problem, Plan& plan);
bool prepare_conv_weights(const Problem& problem, Plan& plan);
// Depthwise 3x3 convolution of stride 1 or 2, f32: forward and to the data; to the weights.
bool prepare_depthwise(const Problem& problem, Plan& plan);
bool prepare_depthwise_weights(const Problem& problem, Plan& plan);
// Quantized: linear and convolution in one group; depthwise 3x3 convolution.
bool prepare_int8(const Problem& problem, Plan& plan);
bool prepare_depthwise_int8(const Problem& problem, Plan& plan);
bool prepare_batch_norm(const Problem& problem, Plan& plan);
bool prepare_layer_norm(const Problem& problem, Plan& plan);
bool prepare_rms_norm(const Problem& problem, Plan& plan);
bool prepare_swiglu(const Problem& problem, Plan& plan);
bool prepare_rope(const Problem& problem, Plan& plan);
bool prepare_pointwise(const Problem& problem, Plan& plan);
bool prepare_max_pool(const Problem& problem, Plan& plan);
bool prepare_avg_pool(const Problem& problem, Plan& plan);
bool prepare_dropout(const Problem& problem, Plan& plan);
bool prepare_loss(const Problem& problem, Plan& plan);
bool prepare_target_loss(const Problem& problem, Plan& plan);
bool prepare_embedding(const Problem& problem, Plan& plan);
bool prepare_positions(const Problem& problem, Plan& plan);
bool prepare_attention(const Problem& problem, Plan& plan);  // whole and with a cache
bool prepare_attention_backward(const Problem& problem, Plan& plan);
bool prepare_quantize(const Problem& problem, Plan& plan);
bool prepare_cast(const Problem& problem, Plan& plan);
bool prepare_optimizer(const Problem& problem, Plan& plan);
bool prepare_gradients(const Problem& problem, Plan& plan);  // sums, norm, direction of Muon

}  // namespace mlx::kernels::MLX_ISA
