// The exports of lib/mlx/mlx_cuda.so: its rows of the kernel table, its devices and their description.
// kernels/device.cpp opens the module. It needs no symbol of the executable and lets no exception escape.
#include "kernels/cuda/module.h"

#include "kernels/cuda/cuda.h"
#include "kernels_sources.h"

namespace mlx::kernels::cuda {
namespace {

// If an operation has several rows, the first one that serves a problem is used.
constexpr Kernel kRows[] = {
    {Op::kLinear, Backend::kCuda, prepare_library_linear},
    {Op::kLinear, Backend::kCuda, prepare_tensor_linear},
    {Op::kLinear, Backend::kCuda, prepare_linear},
    {Op::kLinearBackwardData, Backend::kCuda, prepare_library_linear},
    {Op::kLinearBackwardData, Backend::kCuda, prepare_tensor_linear},
    {Op::kLinearBackwardData, Backend::kCuda, prepare_linear},
    {Op::kLinearBackwardWeights, Backend::kCuda, prepare_library_linear},
    {Op::kLinearBackwardWeights, Backend::kCuda, prepare_tensor_linear},
    {Op::kLinearBackwardWeights, Backend::kCuda, prepare_linear},
    {Op::kConv2d, Backend::kCuda, prepare_depthwise},
    {Op::kConv2dBackwardData, Backend::kCuda, prepare_depthwise},
    {Op::kConv2dBackwardWeights, Backend::kCuda, prepare_depthwise},
    {Op::kConv2d, Backend::kCuda, prepare_library_conv},
    {Op::kConv2d, Backend::kCuda, prepare_tensor_conv},
    {Op::kConv2d, Backend::kCuda, prepare_conv},
    {Op::kConv2dBackwardData, Backend::kCuda, prepare_library_conv},
    {Op::kConv2dBackwardData, Backend::kCuda, prepare_tensor_conv},
    {Op::kConv2dBackwardData, Backend::kCuda, prepare_conv},
    {Op::kConv2dBackwardWeights, Backend::kCuda, prepare_library_conv},
    {Op::kConv2dBackwardWeights, Backend::kCuda, prepare_tensor_conv},
    {Op::kConv2dBackwardWeights, Backend::kCuda, prepare_conv},
    {Op::kBatchNorm, Backend::kCuda, prepare_batch_norm},
    {Op::kBatchNormBackward, Backend::kCuda, prepare_batch_norm},
    {Op::kBatchNormInference, Backend::kCuda, prepare_batch_norm},
    {Op::kLayerNorm, Backend::kCuda, prepare_layer_norm},
    {Op::kLayerNormBackward, Backend::kCuda, prepare_layer_norm},
    {Op::kRmsNorm, Backend::kCuda, prepare_rms_norm},
    {Op::kRmsNormBackward, Backend::kCuda, prepare_rms_norm},
    {Op::kRelu, Backend::kCuda, prepare_pointwise},
    {Op::kReluBackward, Backend::kCuda, prepare_pointwise},
    {Op::kRelu6, Backend::kCuda, prepare_pointwise},
    {Op::kRelu6Backward, Backend::kCuda, prepare_pointwise},
    {Op::kGelu, Backend::kCuda, prepare_pointwise},
    {Op::kGeluBackward, Backend::kCuda, prepare_pointwise},
    {Op::kAdd, Backend::kCuda, prepare_pointwise},
    {Op::kScaledAdd, Backend::kCuda, prepare_pointwise},
    {Op::kCast, Backend::kCuda, prepare_pointwise},
    {Op::kQuantize, Backend::kCuda, prepare_pointwise},
    {Op::kDequantize, Backend::kCuda, prepare_pointwise},
    {Op::kSwiGlu, Backend::kCuda, prepare_swiglu},
    {Op::kSwiGluBackward, Backend::kCuda, prepare_swiglu},
    {Op::kDropout, Backend::kCuda, prepare_dropout},
    {Op::kDropoutBackward, Backend::kCuda, prepare_dropout},
    {Op::kMaxPool, Backend::kCuda, prepare_pool},
    {Op::kMaxPoolBackward, Backend::kCuda, prepare_pool},
    {Op::kAvgPool, Backend::kCuda, prepare_pool},
    {Op::kAvgPoolBackward, Backend::kCuda, prepare_pool},
    {Op::kSoftmax, Backend::kCuda, prepare_loss},
    {Op::kSoftmaxCrossEntropy, Backend::kCuda, prepare_loss},
    {Op::kSoftCrossEntropy, Backend::kCuda, prepare_loss},
    {Op::kBinaryCrossEntropy, Backend::kCuda, prepare_target_loss},
    {Op::kRegressionLoss, Backend::kCuda, prepare_target_loss},
    {Op::kEmbedding, Backend::kCuda, prepare_embedding},
    {Op::kEmbeddingBackward, Backend::kCuda, prepare_embedding},
    {Op::kAddPositions, Backend::kCuda, prepare_positions},
    {Op::kAddPositionsBackward, Backend::kCuda, prepare_positions},
    {Op::kRope, Backend::kCuda, prepare_rope},
    {Op::kRopeBackward, Backend::kCuda, prepare_rope},
    {Op::kAttention, Backend::kCuda, prepare_flash_attention},
    {Op::kAttentionBackward, Backend::kCuda, prepare_flash_attention},
    {Op::kAttention, Backend::kCuda, prepare_attention},
    {Op::kAttentionBackward, Backend::kCuda, prepare_attention},
    {Op::kAttentionCached, Backend::kCuda, prepare_attention},
    {Op::kSgd, Backend::kCuda, prepare_optimizer},
    {Op::kAdamW, Backend::kCuda, prepare_optimizer},
    {Op::kLion, Backend::kCuda, prepare_optimizer},
    {Op::kMuonDirection, Backend::kCuda, prepare_gradients},
    {Op::kAccumulate, Backend::kCuda, prepare_gradients},
    {Op::kNorm, Backend::kCuda, prepare_gradients},
    {Op::kGradientScale, Backend::kCuda, prepare_gradient_scale},
    {Op::kAugment, Backend::kCuda, prepare_augment},
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

extern "C" const char* mlx_cuda_description() {
  return mlx::kernels::cuda::description();
}
