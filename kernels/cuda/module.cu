// The exports of lib/mlx/mlx_cuda.so: its rows of the kernel table, its devices and their description.
// kernels/device.cpp opens the module. It needs no symbol of the executable and lets no exception escape.
#include "kernels/cuda/module.h"

#include "kernels/cuda/cuda.h"
#include "kernels_sources.h"

namespace mlx::kernels::cuda {
namespace {

// If an operation has several rows, the first one that serves a problem is used.
constexpr Kernel kRows[] = {
    {Op::kLinear, prepare_library_linear},
    {Op::kLinear, prepare_tensor_linear},
    {Op::kLinear, prepare_linear},
    {Op::kLinearBackwardData, prepare_library_linear},
    {Op::kLinearBackwardData, prepare_tensor_linear},
    {Op::kLinearBackwardData, prepare_linear},
    {Op::kLinearBackwardWeights, prepare_library_linear},
    {Op::kLinearBackwardWeights, prepare_tensor_linear},
    {Op::kLinearBackwardWeights, prepare_linear},
    {Op::kConv2d, prepare_depthwise},
    {Op::kConv2dBackwardData, prepare_depthwise},
    {Op::kConv2dBackwardWeights, prepare_depthwise},
    {Op::kConv2d, prepare_library_conv},
    {Op::kConv2d, prepare_tensor_conv},
    {Op::kConv2d, prepare_conv},
    {Op::kConv2dBackwardData, prepare_library_conv},
    {Op::kConv2dBackwardData, prepare_tensor_conv},
    {Op::kConv2dBackwardData, prepare_conv},
    {Op::kConv2dBackwardWeights, prepare_library_conv},
    {Op::kConv2dBackwardWeights, prepare_tensor_conv},
    {Op::kConv2dBackwardWeights, prepare_conv},
    {Op::kBatchNorm, prepare_batch_norm},
    {Op::kBatchNormBackward, prepare_batch_norm},
    {Op::kBatchNormInference, prepare_batch_norm},
    {Op::kLayerNorm, prepare_layer_norm},
    {Op::kLayerNormBackward, prepare_layer_norm},
    {Op::kRmsNorm, prepare_rms_norm},
    {Op::kRmsNormBackward, prepare_rms_norm},
    {Op::kRelu, prepare_pointwise},
    {Op::kReluBackward, prepare_pointwise},
    {Op::kRelu6, prepare_pointwise},
    {Op::kRelu6Backward, prepare_pointwise},
    {Op::kGelu, prepare_pointwise},
    {Op::kGeluBackward, prepare_pointwise},
    {Op::kSoftCap, prepare_pointwise},
    {Op::kSoftCapBackward, prepare_pointwise},
    {Op::kAdd, prepare_pointwise},
    {Op::kScaledAdd, prepare_pointwise},
    {Op::kCast, prepare_pointwise},
    {Op::kQuantize, prepare_pointwise},
    {Op::kDequantize, prepare_pointwise},
    {Op::kSwiGlu, prepare_swiglu},
    {Op::kSwiGluBackward, prepare_swiglu},
    {Op::kDropout, prepare_dropout},
    {Op::kDropoutBackward, prepare_dropout},
    {Op::kMaxPool, prepare_pool},
    {Op::kMaxPoolBackward, prepare_pool},
    {Op::kAvgPool, prepare_pool},
    {Op::kAvgPoolBackward, prepare_pool},
    {Op::kSoftmax, prepare_loss},
    {Op::kSoftmaxCrossEntropy, prepare_loss},
    {Op::kSoftCrossEntropy, prepare_loss},
    {Op::kBinaryCrossEntropy, prepare_target_loss},
    {Op::kRegressionLoss, prepare_target_loss},
    {Op::kEmbedding, prepare_embedding},
    {Op::kEmbeddingBackward, prepare_embedding},
    {Op::kAddPositions, prepare_positions},
    {Op::kAddPositionsBackward, prepare_positions},
    {Op::kRope, prepare_rope},
    {Op::kRopeBackward, prepare_rope},
    {Op::kAttention, prepare_flash_attention},
    {Op::kAttentionBackward, prepare_flash_attention},
    {Op::kAttention, prepare_attention},
    {Op::kAttentionBackward, prepare_attention},
    {Op::kAttentionCached, prepare_attention},
    {Op::kSgd, prepare_optimizer},
    {Op::kAdamW, prepare_optimizer},
    {Op::kLion, prepare_optimizer},
    {Op::kMuonDirection, prepare_gradients},
    {Op::kAccumulate, prepare_gradients},
    {Op::kNorm, prepare_gradients},
    {Op::kGradientScale, prepare_gradient_scale},
    {Op::kAugment, prepare_augment},
};

}  // namespace
}  // namespace mlx::kernels::cuda

extern "C" const mlx::kernels::Kernel* mlx_cuda_kernels(int* count) {
  using mlx::kernels::cuda::kRows;
  *count = static_cast<int>(sizeof kRows / sizeof *kRows);
  return kRows;
}

extern "C" const char* mlx_cuda_sources() {
  return MLX_KERNELS_SOURCES;
}

extern "C" const mlx::kernels::Device* mlx_cuda_device(int index) {
  return mlx::kernels::cuda::device_at(index);
}

extern "C" int mlx_cuda_state() {
  return static_cast<int>(mlx::kernels::cuda::device_state());
}

extern "C" const char* mlx_cuda_gpus() {
  return mlx::kernels::cuda::gpus();
}

extern "C" const char* mlx_cuda_description() {
  return mlx::kernels::cuda::description();
}
