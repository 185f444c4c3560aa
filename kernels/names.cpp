// Names of operations, dtypes and backends. They stand in model.json, in errors and in reports, so none ever changes.
#include "kernels/kernel.h"

namespace mlx::kernels {
namespace {

// In the order of enum Op.
constexpr const char* kOpNames[] = {
    "linear",
    "linear_backward_data",
    "linear_backward_weights",
    "conv2d",
    "conv2d_backward_data",
    "conv2d_backward_weights",
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_inference",
    "layer_norm",
    "layer_norm_backward",
    "relu",
    "relu_backward",
    "relu6",
    "relu6_backward",
    "gelu",
    "gelu_backward",
    "add",
    "add_positions",
    "add_positions_backward",
    "max_pool",
    "max_pool_backward",
    "avg_pool",
    "avg_pool_backward",
    "dropout",
    "dropout_backward",
    "softmax_cross_entropy",
    "softmax",
    "embedding",
    "embedding_backward",
    "attention",
    "attention_backward",
    "attention_cached",
    "quantize",
    "dequantize",
    "sgd",
    "adamw",
    "lion",
    "muon_direction",
    "scaled_add",
    "accumulate",
    "norm",
    "rms_norm",
    "rms_norm_backward",
    "swiglu",
    "swiglu_backward",
    "rope",
    "rope_backward",
    "binary_cross_entropy",
    "regression_loss",
    "cast",
    "soft_cross_entropy",
    "gradient_scale",
    "augment",
    "reshape",
};
static_assert(sizeof(kOpNames) / sizeof(*kOpNames) == static_cast<std::size_t>(Op::kCount));

}  // namespace

const char* name_of(Op op) {
  return op < Op::kCount ? kOpNames[static_cast<std::size_t>(op)] : "unknown";
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kS32:
      return "s32";
    case DType::kS8:
      return "s8";
    case DType::kU8:
      return "u8";
    case DType::kI64:
      return "i64";
  }
  return "unknown";
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kS8:
    case DType::kU8:
      return 1;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kS32:
      return 4;
    case DType::kI64:
      return 8;
  }
  return 0;
}

const char* name_of(Backend backend) {
  switch (backend) {
    case Backend::kRef:
      return "ref";
    case Backend::kAvx2:
      return "avx2";
    case Backend::kAvx512:
      return "avx512";
    case Backend::kOneDnn:
      return "onednn";
    case Backend::kCuda:
      return "cuda";
  }
  return "unknown";
}

}  // namespace mlx::kernels
