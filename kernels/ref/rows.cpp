// The rows that the reference backend gives to the kernel table.
#include "kernels/ref/ref.h"
#include "kernels/table.h"

namespace mlx::kernels {

std::vector<Kernel> ref_kernels() {
  using namespace ref;
  constexpr Backend kBackend = Backend::kRef;
  return {
      {Op::kLinear, kBackend, prepare_linear},
      {Op::kLinearBackwardData, kBackend, prepare_linear},
      {Op::kLinearBackwardWeights, kBackend, prepare_linear},
      {Op::kConv2d, kBackend, prepare_conv},
      {Op::kConv2dBackwardData, kBackend, prepare_conv},
      {Op::kConv2dBackwardWeights, kBackend, prepare_conv},
      {Op::kBatchNorm, kBackend, prepare_batch_norm},
      {Op::kBatchNormBackward, kBackend, prepare_batch_norm},
      {Op::kBatchNormInference, kBackend, prepare_batch_norm},
      {Op::kLayerNorm, kBackend, prepare_layer_norm},
      {Op::kLayerNormBackward, kBackend, prepare_layer_norm},
      {Op::kRelu, kBackend, prepare_pointwise},
      {Op::kReluBackward, kBackend, prepare_pointwise},
      {Op::kRelu6, kBackend, prepare_pointwise},
      {Op::kRelu6Backward, kBackend, prepare_pointwise},
      {Op::kGelu, kBackend, prepare_pointwise},
      {Op::kGeluBackward, kBackend, prepare_pointwise},
      {Op::kAdd, kBackend, prepare_pointwise},
      {Op::kAddPositions, kBackend, prepare_positions},
      {Op::kAddPositionsBackward, kBackend, prepare_positions},
      {Op::kMaxPool, kBackend, prepare_pool},
      {Op::kMaxPoolBackward, kBackend, prepare_pool},
      {Op::kAvgPool, kBackend, prepare_pool},
      {Op::kAvgPoolBackward, kBackend, prepare_pool},
      {Op::kSoftmaxCrossEntropy, kBackend, prepare_loss},
      {Op::kSoftmax, kBackend, prepare_loss},
      {Op::kSoftCrossEntropy, kBackend, prepare_loss},
      {Op::kBinaryCrossEntropy, kBackend, prepare_target_loss},
      {Op::kRegressionLoss, kBackend, prepare_target_loss},
      {Op::kDropout, kBackend, prepare_dropout},
      {Op::kDropoutBackward, kBackend, prepare_dropout},
      {Op::kEmbedding, kBackend, prepare_embedding},
      {Op::kEmbeddingBackward, kBackend, prepare_embedding},
      {Op::kAttention, kBackend, prepare_attention},
      {Op::kAttentionBackward, kBackend, prepare_attention},
      {Op::kAttentionCached, kBackend, prepare_attention},
      {Op::kRmsNorm, kBackend, prepare_rms_norm},
      {Op::kRmsNormBackward, kBackend, prepare_rms_norm},
      {Op::kSwiGlu, kBackend, prepare_swiglu},
      {Op::kSwiGluBackward, kBackend, prepare_swiglu},
      {Op::kRope, kBackend, prepare_rope},
      {Op::kRopeBackward, kBackend, prepare_rope},
      {Op::kQuantize, kBackend, prepare_quantize},
      {Op::kDequantize, kBackend, prepare_quantize},
      {Op::kSgd, kBackend, prepare_optimizer},
      {Op::kAdamW, kBackend, prepare_optimizer},
      {Op::kLion, kBackend, prepare_optimizer},
      {Op::kMuonDirection, kBackend, prepare_gradients},
      {Op::kScaledAdd, kBackend, prepare_pointwise},
      {Op::kAccumulate, kBackend, prepare_gradients},
      {Op::kNorm, kBackend, prepare_gradients},
      {Op::kGradientScale, kBackend, prepare_gradient_scale},
      {Op::kCast, kBackend, prepare_cast},
      {Op::kAugment, kBackend, prepare_augment},
  };
}

}  // namespace mlx::kernels
