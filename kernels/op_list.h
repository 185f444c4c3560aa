// The operations, one row each; nothing else lists them. Included several times, once for each use of all rows (op.h:
// the enum, names.cpp: the names, geometry.cpp: the checks, the reference kernels, the graph's rules), so there is no
// include guard.
//
//   MLX_OP(enumerator, name, family, required inputs, most inputs)
//
// The name is stored in model.json and never changes. The first `required` inputs must be present. The family names the
// functions of an operation: check_FAMILY (kernels/checker.h), ref::prepare_FAMILY (kernels/ref) and
// graph::FAMILY_ops (src/graph/ops). MLX_PRIMITIVE marks an operation that a device may lack; MLX_VIEW and
// MLX_COLLECTIVE one without a kernel, because it is no work or because ranks do it together
// (graph/session/collectives.h). If a file does not define them they are MLX_OP. New rows go at the end.
//
// Notation: x[N,H,W,C] input, y output, dx gradient of x; B batch, T positions, D width, V vocabulary, "…" any leading
// dims; (x) optional. All f32 unless said otherwise; "half" is bf16 or f16, one of them throughout an operation. "in
// place" names what may share memory.
#ifndef MLX_PRIMITIVE
#define MLX_PRIMITIVE MLX_OP
#endif
#ifndef MLX_VIEW
#define MLX_VIEW MLX_OP
#endif
#ifndef MLX_COLLECTIVE
#define MLX_COLLECTIVE MLX_OP
#endif

// clang-format off
// Linear: y[…,N] = act(x[…,K] · wᵀ + b), w[N,K], (b[N]). attrs.activation.
//   quantized: x u8|s8, w s8, b f32, w_scales f32[N] (input 3); y f32, or u8|s8 at scale_y. real(x) = scale_x · x.
//   half: x and dy are half, y and dx f32 or half. w is half, or f32 that is rounded to half before it is multiplied.
//   b, dw and db stay f32; b may be rounded where y is half. Sums are f32. Only GPUs take w in half: CPUs pack weights.
//   tf32: with attrs.tf32 a kernel may round or cut f32 factors to 10 bits of fraction; sums stay f32. CPUs do not.
//   gelu in training on GPUs: (pre[…,N]), output 1, is the pre-activation in y's dtype. y is the gelu of the unrounded
//   pre-activation, or of pre if a kernel applies gelu after the product.
MLX_OP(kLinear, "linear", linear, 2, 4)
// dy[…,N], w, (pre[…,K], in dx's dtype) → dx[…,K]. With pre, attrs.activation is gelu and dx = (dy · w) ⊙ gelu'(pre):
// the gradient of the previous layer's pre-activation.
MLX_OP(kLinearBackwardData, "linear_backward_data", linear, 2, 3)
// x, dy → dw[N,K], (db[N])
MLX_OP(kLinearBackwardWeights, "linear_backward_weights", linear, 2, 2)

// Convolution: x[N,H,W,C], w[O,KH,KW,C/groups], (b[O]) → y[N,OH,OW,O]. attrs kernel, stride, pad, groups, activation.
//   quantized as for linear: w_scales f32[O] is input 3. half and tf32 as for linear.
MLX_OP(kConv2d, "conv2d", conv, 2, 4)
// dy, w → dx
MLX_OP(kConv2dBackwardData, "conv2d_backward_data", conv, 2, 2)
// x, dy → dw, (db)
MLX_OP(kConv2dBackwardWeights, "conv2d_backward_weights", conv, 2, 2)

// Batch norm over all but the last dim: x, gamma[C], beta[C], running_mean[C], running_var[C] → y, saved_mean[C],
// saved_rstd[C], and running_mean, running_var again (in place, outputs 3 and 4; unbiased variance, attrs.momentum).
// attrs.epsilon, attrs.activation (none, relu, relu6). In training x, y and dx are each f32 or half.
MLX_OP(kBatchNorm, "batch_norm", batch_norm, 5, 5)
// x, dy, gamma, saved_mean, saved_rstd, (beta: for an activation) → dx, dgamma, dbeta
MLX_OP(kBatchNormBackward, "batch_norm_backward", batch_norm, 5, 6)
// x, gamma, beta, running_mean, running_var → y
MLX_OP(kBatchNormInference, "batch_norm_inference", batch_norm, 5, 5)

// Layer norm over the last dim: x[…,D], gamma[D], beta[D], (residual[…,D]) → y, saved_mean[…], saved_rstd[…],
// (sum[…,D]). attrs.epsilon. y is f32 or half. With a residual (f32 or half), and only then, sum = x + residual rounded
// to f32, and the norm is that of sum; sum may be in place on x or residual. residual and dsum are for GPUs.
MLX_OP(kLayerNorm, "layer_norm", layer_norm, 3, 4)
// x (or sum), dy, gamma, saved_mean, saved_rstd, (dsum[…,D]) → dx, dgamma, dbeta. dsum, the gradient of sum's other
// uses, is added to dx; dx may be in place on dsum.
MLX_OP(kLayerNormBackward, "layer_norm_backward", layer_norm, 5, 6)

// Activations and their gradients: the first input and the output are each f32 or half.
//
// x → y, in place
MLX_OP(kRelu, "relu", pointwise, 1, 1)
// y, dy → dx, in place on dy
MLX_OP(kReluBackward, "relu_backward", pointwise, 2, 2)
// x → min(max(x, 0), 6), in place
MLX_OP(kRelu6, "relu6", pointwise, 1, 1)
// y, dy → dx, in place on dy
MLX_OP(kRelu6Backward, "relu6_backward", pointwise, 2, 2)
// x → y
MLX_OP(kGelu, "gelu", pointwise, 1, 1)
// x, dy → dx, in place on dy
MLX_OP(kGeluBackward, "gelu_backward", pointwise, 2, 2)

// a, b → y (same shapes), in place on either. attrs.activation (none, relu, relu6)
MLX_OP(kAdd, "add", pointwise, 2, 2)
// x[B,T,D], table[P,D], (positions s32[B]: first position of each sequence, default 0) → y[B,T,D]
MLX_OP(kAddPositions, "add_positions", positions, 2, 3)
// dy, (positions) → dtable[P,D]   (attrs.axis: P)
MLX_OP(kAddPositionsBackward, "add_positions_backward", positions, 1, 2)

// x[N,H,W,C] → y, index s32 (offset into the window's image plane); attrs kernel, stride, pad.
// x and y are each f32 or half, or both u8 or s8.
MLX_OP(kMaxPool, "max_pool", pool, 1, 1)
// dy, index → dx   (output shape given)
MLX_OP(kMaxPoolBackward, "max_pool_backward", pool, 2, 2)
// global: x[N,H,W,C] → y[N,C]. f32, or u8|s8 → f32 at scale_x
MLX_OP(kAvgPool, "avg_pool", pool, 1, 1)
// dy[N,C] → dx[N,H,W,C]
MLX_OP(kAvgPoolBackward, "avg_pool_backward", pool, 1, 1)
// x → y; attrs.rate, stream, whole_example. The mask is drawn again in backward, never stored.
MLX_OP(kDropout, "dropout", dropout, 1, 1)
// dy → dx
MLX_OP(kDropoutBackward, "dropout_backward", dropout, 1, 1)

// Losses compute their own gradient, output 1, multiplied by (factor[…])[0], input 2. The gradient is f32 or half and
// rounded once. Logits are f32 or half, predictions of kRegressionLoss f32; statistics and sums are f32.
//
// Softmax cross-entropy: logits[…,V], labels s32[…] (outside 0 … V-1: ignored), (factor) → loss[1] (mean over the
// counted), (dlogits[…,V]: the gradient of the mean loss), (correct s32[1]), (counted s32[1]). attrs.rate: label
// smoothing.
MLX_OP(kSoftmaxCrossEntropy, "softmax_cross_entropy", loss, 2, 3)
// logits[…,V] → p
MLX_OP(kSoftmax, "softmax", loss, 1, 1)

// An id outside 0 … V-1 reads zeros and has no gradient.
//
// ids s32[…], table[V,D] → y[…,D]
MLX_OP(kEmbedding, "embedding", embedding, 2, 2)
// ids, dy → dtable[V,D]   (attrs.axis: V); sums in order of position
MLX_OP(kEmbeddingBackward, "embedding_backward", embedding, 2, 2)

// Causal self-attention with grouped queries (Ainslie et al. 2023): qkv[B,T,(H+2G)d], H heads of queries, then G of
// keys, then G of values, each d wide → y[B,T,Hd], lse[B,H,T]. attrs.heads H, kv_heads G (0: H): query head h attends
// to keys and values h / (H/G). qkv, y and their gradients are all f32 or all half; lse is f32. A score is q·k / √d ·
// attrs.scale_a, then c · tanh(score / c) with attrs.cap c. With attrs.window w a query at p attends to p-w+1 … p.
MLX_OP(kAttention, "attention", attention, 1, 1)
// qkv, y, lse, dy → dqkv
MLX_OP(kAttentionBackward, "attention_backward", attention, 4, 4)
// With a cache: qkv[B,T,(H+2G)d] of T new positions, k_cache[B,P,Gd], v_cache[B,P,Gd] (in place: outputs 1 and 2),
// positions s32[B]: how many positions each sequence already holds → y[B,T,Hd]. The new keys and values are written,
// then attended to. If a sequence would outgrow P, nothing is written and its y is 0. With (blocks s32[B,M]) the caches
// are [N,P,Gd], P a multiple of 128: the position p of sequence b lies in row p mod P of block blocks[b, p / P]. A
// sequence that needs a block outside of 0 … N-1 is treated as one that has no room. Both caches are f32; or f16, to
// which keys and values are rounded; or s8[…,G(d+2⌈d/32⌉)]: of each head the d numbers as integers, then of each 32 of
// them a scale in f16 (cache_bytes.h). y is computed from what the caches hold.
MLX_OP(kAttentionCached, "attention_cached", attention, 4, 5)

// x f32 → y s8|u8 at scale_y, round to nearest even, saturating
MLX_OP(kQuantize, "quantize", quantize, 1, 1)
// x s8|u8 at scale_x → y f32
MLX_OP(kDequantize, "dequantize", quantize, 1, 1)

// Optimizers of one parameter: in place on parameter and state. lr f32[1] is an input. dw is multiplied by
// (factor f32[1]); a NaN factor writes nothing (x of kMuonDirection is 0).
//
// w, dw, (velocity: absent without momentum), lr[1], (factor) → w, velocity. attrs.momentum, weight_decay, nesterov
MLX_OP(kSgd, "sgd", optimizer, 2, 5)
// w, dw, m, v, lr[1], (factor) → w, m, v. attrs.beta1, beta2, epsilon, weight_decay (decoupled); bias correction by
// args.step + 1
MLX_OP(kAdamW, "adamw", optimizer, 5, 6)
// w, dw, m, lr[1], (factor) → w, m. attrs.beta1, beta2, weight_decay (decoupled)
MLX_OP(kLion, "lion", optimizer, 4, 5)
// dw, velocity, (factor) → velocity, x: dw with momentum, divided by its norm. The graph orthogonalises it.
// attrs.momentum, nesterov
MLX_OP(kMuonDirection, "muon_direction", gradients, 2, 3)

// a, b → y = attrs.scale_a · a + attrs.scale_b · b (same shapes), in place on either
MLX_OP(kScaledAdd, "scaled_add", pointwise, 2, 2)
// sum, x, factors[2] → sum = factors[0] · sum + factors[1] · x, in place; sum is not read if factors[0] is 0
MLX_OP(kAccumulate, "accumulate", gradients, 3, 3)
// x, (before[1]) → n[1] = sqrt(before² + sum of x²), the squares added in double. On the host phase 0 writes the sum of
// slice s of x (elements_of_slice in plan.h) to double s of the workspace: ranks that share x share its slices.
MLX_OP(kNorm, "norm", gradients, 1, 2)

// RMS norm over the last dim (Zhang & Sennrich 2019): x[…,D], gamma[D], (residual[…,D]) → y, saved_rstd[…],
// (sum[…,D]). attrs.epsilon. y f32 or half; residual and sum, and dsum, as of layer norm.
MLX_OP(kRmsNorm, "rms_norm", rms_norm, 2, 3)
// x (or sum), dy, gamma, saved_rstd, (dsum[…,D]) → dx, dgamma
MLX_OP(kRmsNormBackward, "rms_norm_backward", rms_norm, 4, 5)

// Gated linear unit with SiLU (Shazeer 2020): x[…,2H], first gate, then up → y[…,H] = silu(gate) · up; with
// attrs.activation gelu it is gelu(gate) · up. y and dx each f32 or half.
MLX_OP(kSwiGlu, "swiglu", swiglu, 1, 1)
// x, dy → dx
MLX_OP(kSwiGluBackward, "swiglu_backward", swiglu, 2, 2)

// Rotary positions (Su et al. 2021) of the queries and keys in qkv[B,T,(H+2G)d] as attention takes it, (positions
// s32[B]: first position of each sequence, default 0) → the same rotated, in place. Element i of a head's first half
// and of its second turn together by position · theta^(-2i/d), slowed as attrs.slow, long_context, long_low, long_high,
// ramp_begin and ramp_end say (rope_table.h). attrs.heads, kv_heads, theta, axis: how many positions there are; those outside are not
// rotated.
MLX_OP(kRope, "rope", rope, 1, 2)
// dy, (positions) → dx, in place
MLX_OP(kRopeBackward, "rope_backward", rope, 1, 2)

// Losses against targets of the same shape: x[…,V], targets[…,V], (factor) → loss[1] (mean over all elements),
// (dx[…,V]: its gradient).
//
// Of sigmoid(x) with targets from 0 to 1; also (correct s32[1]: x > 0 exactly if the target is above one half), (counted
// s32[1]). attrs.rate: label smoothing.
MLX_OP(kBinaryCrossEntropy, "binary_cross_entropy", target_loss, 2, 3)
// Squared error; with attrs.delta Huber's loss (1964): half the square up to delta, then linear.
MLX_OP(kRegressionLoss, "regression_loss", target_loss, 2, 3)

// x f32 → y half, rounded to nearest even, or x half → y f32. attrs.output
MLX_OP(kCast, "cast", cast, 1, 1)

// Softmax cross-entropy against class probabilities: logits[…,V], targets[…,V], (factor) → loss[1] (mean over the
// rows), (dlogits[…,V]: its gradient), (correct s32[1]: the largest logit is at the place of the largest share),
// (counted s32[1]: rows). attrs.rate: label smoothing.
MLX_OP(kSoftCrossEntropy, "soft_cross_entropy", loss, 2, 3)

// norm[1] of all gradients, (loss_scale[2] that the loss was multiplied by) → factor[1] to multiply gradients by:
// 1 / scale · min(1, attrs.clip / norm), of the unscaled norm; that norm[1]; (taken[1]: 1); loss_scale (in place). With
// a loss_scale and a norm that is not finite, factor and taken are NaN and the step is skipped (loss_scale.h).
// attrs.clip: 0 for none.
MLX_OP(kGradientScale, "gradient_scale", gradient_scale, 1, 2)

// Images from bytes (image_change.h): pixels u8[N,H,W,C], changes s32[N,6], table f32[C,256], (partner's pixels,
// partner's changes, share f32[1]: all or none) → y[N,H,W,C], f32 or half. Each image is looked up in the table and
// changed; with partners y = share · that + (1 - share) · the partner's, two products and a sum, each rounded.
MLX_OP(kAugment, "augment", augment, 3, 6)

// The same elements in the same order under another shape: no work, the planner makes it a view.
MLX_VIEW(kReshape, "reshape", reshape, 1, 1)

// Primitive operations, which imported graphs consist of. "Any" numbers are of any dtype, the same in all tensors.

// x → y: dim i of y is dim attrs.axes[i] of x. Any numbers.
MLX_PRIMITIVE(kTranspose, "transpose", transpose, 1, 1)

// x → y: along each of attrs.axes every steps-th element from starts up to ends. Negative indices count from the end,
// kToEnd is the end, and indices are clamped; steps are 1 if not given. Any numbers.
MLX_PRIMITIVE(kSlice, "slice", slice, 1, 1)
// dy → dx (shape given)
MLX_PRIMITIVE(kSliceBackward, "slice_backward", slice, 1, 1)

// parts → y, the parts one after another along attrs.axis. Any numbers.
MLX_PRIMITIVE(kConcat, "concat", concat, 1, 7)
// dy, parts (for their sizes) → gradients of the parts, each optional
MLX_PRIMITIVE(kConcatBackward, "concat_backward", concat, 2, 8)

// x[A…,V,B…], indices s32|i64[…] → y[A…,…,B…] with V the dim attrs.axis. A negative index counts from the end; one
// outside reads zeros and has no gradient. Any numbers.
MLX_PRIMITIVE(kGather, "gather", gather, 2, 2)
// indices, dy → dx (shape given); sums in order of the indices
MLX_PRIMITIVE(kGatherBackward, "gather_backward", gather, 2, 2)

// a, b → y, attrs.arithmetic of the two, by NumPy's broadcasting rules. The maximum and minimum of NaN and another
// number are NaN.
MLX_PRIMITIVE(kArithmetic, "arithmetic", arithmetic, 2, 2)
// a, b, dy → (da), (db), both in y's shape. If a equals b, the gradient of a maximum or minimum goes to a.
MLX_PRIMITIVE(kArithmeticBackward, "arithmetic_backward", arithmetic, 3, 3)

// x → y, attrs.reduction over attrs.axes (none: all dims); attrs.keep_dims. Over no
// elements a sum is 0, a mean NaN, a maximum -inf, a minimum inf. NaN gives NaN.
MLX_PRIMITIVE(kReduce, "reduce", reduce, 1, 1)
// dy, (x, y: for a maximum or minimum) → dx (shape given). The gradient of a maximum or
// minimum goes to the first element equal to it.
MLX_PRIMITIVE(kReduceBackward, "reduce_backward", reduce, 1, 3)

// a[…,M,K], b[…,K,N] → y[…,M,N]; the leading dims broadcast. attrs.transpose_a: a is [K,M]; transpose_b: b is [N,K].
MLX_PRIMITIVE(kMatmul, "matmul", matmul, 2, 2)

// Collective operations, which the ranks that hold the parts of one model do together.
//
// x → y, the same on all ranks: no work, the planner makes it a view. Its gradient is the sum of those of all ranks.
MLX_VIEW(kReplicate, "replicate", collective, 1, 1)
// x → the sum of x over all ranks, added in their order, in place. Every rank gets the same bits.
MLX_COLLECTIVE(kAllReduce, "all_reduce", collective, 1, 1)
// x[N,…] → y[attrs.groups · N,…], the x of all ranks one after another
MLX_COLLECTIVE(kAllGather, "all_gather", collective, 1, 1)

// Linear with weights in groups: y[…,N] = x[…,K] · wᵀ + b. w is s8[N,K], or u8[N,K/2] with two weights of four bits a
// byte, the first in the lower half, from 0 to 15 for -8 to 7. scales f16[G,N]: of w in each of G groups of K/G inputs,
// a multiple of 32; a weight is its scale times its integer. (b[N]). Each row of x is rounded to s8 in the same groups,
// at the scale max|x| / 127, so that the sum of a group is exact. The sums are added in the order of the groups, from b
// on, each as fma(sum, scale of w · scale of x, …) in f32: all kernels give the same bits, and a row's bits do not
// depend on the other rows. An x that is not finite makes its row NaN; a group
// of x below 2^-100 counts as 0.
MLX_PRIMITIVE(kLinearGroups, "linear_groups", linear_groups, 3, 4)

// Batch norm over the rows of R ranks that have equally many, with all_gather between what each computes from its own:
// types and attributes as of batch_norm and its gradient.
//
// x → statistics f32[1,2,C]: the means, and the sums of the squares of x - mean
MLX_PRIMITIVE(kBatchNormStatistics, "batch_norm_statistics", batch_norm, 1, 1)
// x, gamma[C], beta[C], running_mean[C], running_var[C], statistics[R,2,C] → y, saved_mean[C], saved_rstd[C],
// running_mean, running_var (in place)
MLX_PRIMITIVE(kBatchNormSynchronised, "batch_norm_synchronised", batch_norm, 6, 6)
// x, dy, gamma, saved_mean, saved_rstd, (beta) → sums f32[1,2,C]: of dy, and of dy times normalised x; dgamma and dbeta,
// the same of this rank's rows
MLX_PRIMITIVE(kBatchNormGradientSums, "batch_norm_gradient_sums", batch_norm, 5, 6)
// x, dy, gamma, saved_mean, saved_rstd, sums[R,2,C], (beta) → dx
MLX_PRIMITIVE(kBatchNormSynchronisedBackward, "batch_norm_synchronised_backward", batch_norm, 6, 7)

// x → y = c · tanh(x / c) with attrs.cap c, above 0. x and y are each f32 or half.
MLX_OP(kSoftCap, "soft_cap", pointwise, 1, 1)
// x, dy → dx, in place on dy
MLX_OP(kSoftCapBackward, "soft_cap_backward", pointwise, 2, 2)

// Attention in both directions, of encoders: qkv[B,T,(H+2G)d] as of attention, (lengths s32[B], default T) →
// y[B,T,Hd]. Each of the first lengths[b] positions of a sequence attends to all of them; the y of the others is 0. A
// length outside 0 … T counts as the nearer of the two. A score is q·k / √d · attrs.scale_a. A sequence's y depends
// neither on the other sequences nor on what lies behind its length.
MLX_PRIMITIVE(kBidirectionalAttention, "bidirectional_attention", attention, 1, 2)

// x → y = x · Φ(x), with the normal distribution's Φ itself (Hendrycks & Gimpel 2016); gelu approximates it.
MLX_PRIMITIVE(kGeluErf, "gelu_erf", pointwise, 1, 1)

// dy[…,N], w, scales as of linear_groups → dx[…,K] = dy · w, as if x was not rounded
MLX_PRIMITIVE(kLinearGroupsBackwardData, "linear_groups_backward_data", linear_groups, 3, 3)

// Linear with weights in blocks, as GGUF files have them: y[…,N] = x[…,K] · wᵀ + b. w u8[J] holds N rows of K / 256 blocks
// each, of the types attrs.blocks, attrs.block_rows rows of each (block_type.h). (b[N]). In 32 inputs, or in each half
// of them, a weight is s · q - m with s and m in f32 and an integer q. Each row of x is rounded to s8 in groups of 32 at
// the scale max|x| / 127. From b on, for each group with a scale of its own in order, the sum becomes fma(sum of products
// of integers, s · scale of x, sum), and with an m then fma(-m, scale of x · sum of x's integers, sum). So all kernels
// give the same bits; what is not finite, or below 2^-100, counts as in linear_groups.
MLX_PRIMITIVE(kLinearBlocks, "linear_blocks", linear_blocks, 2, 3)
// ids s32[…], table u8[V,J]: V rows of blocks of the type attrs.blocks → y[…,D], as the type defines it. An id outside
// reads zeros.
MLX_PRIMITIVE(kEmbeddingBlocks, "embedding_blocks", embedding_blocks, 2, 2)

// clang-format on

#undef MLX_OP
#undef MLX_PRIMITIVE
#undef MLX_VIEW
#undef MLX_COLLECTIVE
