// Every operation that a kernel may compute, with its tensors. The graph's nodes carry these; src/graph/ops/ has a file
// for each family with shape rule, backward and cost.
//
// Notation: x[N,H,W,C] input, y output, dx gradient of x; B batch, T positions, D width, V vocabulary, "…" any leading
// dims; (x?) optional. All f32 unless said otherwise; "half" is bf16 or f16, one of them throughout an operation. "in
// place" names what may share memory.
#pragma once

#include <cstdint>

namespace mlx::kernels {

enum class Op : std::uint16_t {
  // Linear: y[…,N] = act(x[…,K] · wᵀ + b), w[N,K], (b[N]). attrs.activation.
  //   quantized: x u8|s8, w s8, b f32, w_scales f32[N] (input 3); y f32, or u8|s8 at scale_y. real(x) = scale_x · x.
  //   half: x and dy half, y and dx f32 or half; w half, or f32 that counts rounded to it; b, dw, db stay f32, but b
  //   may count rounded where y is half. Sums are of f32. w in half is for GPUs: CPUs have packed weights.
  //   tf32: with attrs.tf32 factors in f32 may be rounded or cut to 10 bits of fraction; sums stay f32. Kernels of CPUs
  //   do not.
  //   gelu in training on GPUs: (pre[…,N]), output 1, what gelu is taken of, stored as y is. y is the gelu of what pre
  //   was before rounding; where gelu is no part of the product, of pre.
  kLinear,
  kLinearBackwardData,  // dy[…,N], w, (pre[…,K], stored as dx is) → dx[…,K]. With pre, for which attrs.activation is
                        // gelu, dx = (dy · w) ⊙ gelu'(pre): the gradient of what went into the layer's input
  kLinearBackwardWeights,  // x, dy → dw[N,K], (db[N])

  // Convolution: x[N,H,W,C], w[O,KH,KW,C/groups], (b[O]) → y[N,OH,OW,O]. attrs kernel, stride, pad, groups, activation.
  //   quantized as for linear: w_scales f32[O] is input 3. half and tf32 as for linear.
  kConv2d,
  kConv2dBackwardData,     // dy, w → dx
  kConv2dBackwardWeights,  // x, dy → dw, (db)

  // Batch norm over all but the last dim: x, gamma[C], beta[C], running_mean[C], running_var[C] → y, saved_mean[C],
  // saved_rstd[C], and running_mean, running_var again (in place, outputs 3 and 4; unbiased variance, attrs.momentum).
  // attrs.epsilon, attrs.activation (none, relu, relu6). In training x, y and dx are each f32 or half.
  kBatchNorm,
  kBatchNormBackward,   // x, dy, gamma, saved_mean, saved_rstd, (beta: for an activation) → dx, dgamma, dbeta
  kBatchNormInference,  // x, gamma, beta, running_mean, running_var → y

  // Layer norm over the last dim: x[…,D], gamma[D], beta[D], (residual[…,D]) → y, saved_mean[…], saved_rstd[…],
  // (sum[…,D]). attrs.epsilon. y f32 or half. With a residual, f32 or half, and only then there is sum = x + residual,
  // rounded to f32, of which the norm is taken; in place on x or residual. With a residual or dsum it is for GPUs.
  kLayerNorm,
  // x (or sum), dy, gamma, saved_mean, saved_rstd, (dsum[…,D]) → dx, dgamma, dbeta. dsum is added to dx: the gradient
  // that comes to sum by another way; dx in place on it.
  kLayerNormBackward,

  // Activations and their gradients: the first input and the output are each f32 or half.
  kRelu,           // x → y, in place
  kReluBackward,   // y, dy → dx, in place on dy
  kRelu6,          // x → min(max(x, 0), 6), in place
  kRelu6Backward,  // y, dy → dx, in place on dy
  kGelu,           // x → y
  kGeluBackward,   // x, dy → dx, in place on dy

  kAdd,           // a, b → y (same shapes), in place on either. attrs.activation (none, relu, relu6)
  kAddPositions,  // x[B,T,D], table[P,D], (positions s32[B]: first position of each sequence, default 0) → y[B,T,D]
  kAddPositionsBackward,  // dy, (positions) → dtable[P,D]   (attrs.axis: P)

  // x[N,H,W,C] → y, index s32 (offset into the window's image plane); attrs kernel, stride, pad.
  // x and y are each f32 or half, or both u8 or s8.
  kMaxPool,
  kMaxPoolBackward,  // dy, index → dx   (output shape given)
  kAvgPool,          // global: x[N,H,W,C] → y[N,C]. f32, or u8|s8 → f32 at scale_x
  kAvgPoolBackward,  // dy[N,C] → dx[N,H,W,C]
  kDropout,          // x → y; attrs.rate, stream, whole_example. The mask is drawn again in backward, never stored.
  kDropoutBackward,  // dy → dx

  // Losses: the gradient that each computes, output 1, counts times (factor[…])[0], input 2; it is f32 or half, rounded
  // once. Logits are f32 or half, predictions of kRegressionLoss f32; statistics and sums are of f32.
  //
  // Softmax cross-entropy: logits[…,V], labels s32[…] (outside 0 … V-1: ignored), (factor) → loss[1] (mean over the
  // counted), (dlogits[…,V]: the gradient of the mean loss), (correct s32[1]), (counted s32[1]). attrs.rate: label
  // smoothing.
  kSoftmaxCrossEntropy,
  kSoftmax,  // logits[…,V] → p

  // An id outside 0 … V-1 reads zeros and has no gradient.
  kEmbedding,          // ids s32[…], table[V,D] → y[…,D]
  kEmbeddingBackward,  // ids, dy → dtable[V,D]   (attrs.axis: V); sums in order of position

  // Causal self-attention with grouped queries (Ainslie et al. 2023): qkv[B,T,(H+2G)d], H heads of queries, then G of
  // keys, then G of values, each d wide → y[B,T,Hd], lse[B,H,T]. attrs.heads H, kv_heads G (0: H): query head h attends
  // to keys and values h / (H/G). qkv, y and their gradients are all f32 or all half; lse is f32.
  kAttention,
  kAttentionBackward,  // qkv, y, lse, dy → dqkv
  // With a cache: qkv[B,T,(H+2G)d] of T new positions, k_cache[B,P,Gd], v_cache[B,P,Gd] (in place: outputs 1 and 2),
  // positions s32[B]: how many positions each sequence already holds → y[B,T,Hd]. The new keys and values are written,
  // then attended to; where a sequence would outgrow P nothing is written and its y is 0.
  kAttentionCached,

  kQuantize,    // x f32 → y s8|u8 at scale_y, round to nearest even, saturating
  kDequantize,  // x s8|u8 at scale_x → y f32

  // Optimizers over one parameter: in place on parameter and state. lr f32[1] and step counts come as inputs. dw counts
  // times (factor f32[1]); where that is NaN nothing is written (of kMuonDirection x is 0).
  kSgd,    // w, dw, (velocity: absent without momentum), lr[1], (factor) → w, velocity. attrs.momentum, weight_decay,
           // nesterov
  kAdamW,  // w, dw, m, v, lr[1], (factor) → w, m, v. attrs.beta1, beta2, epsilon, weight_decay (decoupled); bias
           // correction by args.step + 1
  kLion,   // w, dw, m, lr[1], (factor) → w, m. attrs.beta1, beta2, weight_decay (decoupled)
  kMuonDirection,  // dw, velocity, (factor) → velocity, x: dw with momentum, divided by its own norm. The graph
                   // orthogonalises it. attrs.momentum, nesterov

  kScaledAdd,   // a, b → y = attrs.scale_a · a + attrs.scale_b · b (same shapes), in place on either
  kAccumulate,  // sum, x, factors[2] → sum = factors[0] · sum + factors[1] · x, in place; sum is not read where
                // factors[0] is 0
  kNorm,        // x, (before[1]) → n[1] = sqrt(before² + sum of x²), the squares added in double

  // RMS norm over the last dim (Zhang & Sennrich 2019): x[…,D], gamma[D], (residual[…,D]) → y, saved_rstd[…],
  // (sum[…,D]). attrs.epsilon. y f32 or half; residual and sum, and dsum, as of layer norm.
  kRmsNorm,
  kRmsNormBackward,  // x (or sum), dy, gamma, saved_rstd, (dsum[…,D]) → dx, dgamma

  // Gated linear unit with SiLU (Shazeer 2020): x[…,2H], gate and up one behind another → y[…,H] = silu(gate) · up.
  // y and dx each f32 or half.
  kSwiGlu,
  kSwiGluBackward,  // x, dy → dx

  // Rotary positions (Su et al. 2021) of the queries and keys in qkv[B,T,(H+2G)d] as attention takes it, (positions
  // s32[B]: first position of each sequence, default 0) → the same rotated, in place. Element i of a head's first half
  // and of its second turn together by position · theta^(-2i/d). attrs.heads, kv_heads, theta, axis: how many positions
  // there are; those outside are not turned.
  kRope,
  kRopeBackward,  // dy, (positions) → dx, in place

  // Losses against targets of the same shape: x[…,V], targets[…,V], (factor) → loss[1] (mean over all elements),
  // (dx[…,V]: its gradient).
  kBinaryCrossEntropy,  // of sigmoid(x) with targets from 0 to 1; also (correct s32[1]: x > 0 where the target is above
                        // one half), (counted s32[1]). attrs.rate: label smoothing.
  kRegressionLoss,      // squared error; with attrs.delta that of Huber (1964), half the square up to delta

  kCast,  // x f32 → y half, rounded to nearest even, or x half → y f32. attrs.output

  // Softmax cross-entropy against shares of the classes: logits[…,V], targets[…,V], (factor) → loss[1] (mean over the
  // rows), (dlogits[…,V]: its gradient), (correct s32[1]: the largest logit stands where the largest share does),
  // (counted s32[1]: rows). attrs.rate: label smoothing.
  kSoftCrossEntropy,

  // norm[1] of all gradients together, (loss_scale[2] that they were multiplied by) → factor[1] that they count times:
  // 1 / scale · min(1, attrs.clip / norm), the norm unscaled; that norm[1]; (taken[1]: 1); loss_scale (in place). With
  // a loss_scale and a norm that is not finite factor and taken are NaN: the step is left out (loss_scale.h).
  // attrs.clip: 0 for none.
  kGradientScale,

  // Images out of bytes (image_change.h): pixels u8[N,H,W,C], changes s32[N,6], table f32[C,256], (partner's pixels,
  // partner's changes, share f32[1]: all or none) → y[N,H,W,C], f32 or half. Each image is looked up in the table and
  // changed; with partners y = share · that + (1 - share) · the partner's, two products and a sum, each rounded.
  kAugment,

  kReshape,  // no kernel: the planner makes it a view

  kCount
};

const char* name_of(Op op);  // "linear", "conv2d_backward_data" …; stable, stands in model.json

}  // namespace mlx::kernels
