// Checks that our declarations of NVIDIA's libraries (cublas_lt.h, cudnn.h, nccl.h) match their headers, if nvcc finds
// those. Compiles to nothing.
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/nccl.h"

#if defined(__CUDACC__) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define MLX_HAS_CUBLAS_LT
#endif
#if defined(__CUDACC__) && __has_include(<cudnn.h>)
#include <cudnn.h>
#define MLX_HAS_CUDNN
#endif
#if defined(__CUDACC__) && __has_include(<nccl.h>)
#include <nccl.h>
#define MLX_HAS_NCCL
#endif

namespace mlx::kernels::cuda {
namespace {

template <typename T>
constexpr bool opaque() {
  return std::is_void_v<T> || std::is_class_v<T>;
}

// True if both types are passed in the same way: numbers of the same size and kind (an enumeration is the integer of
// its size), or pointers to such types, or to types that only the library knows, with the same const.
template <typename Ours, typename Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using Our = std::remove_pointer_t<Ours>;
    using Their = std::remove_pointer_t<Theirs>;
    return std::is_const_v<Our> == std::is_const_v<Their> &&
           alike<std::remove_const_t<Our>, std::remove_const_t<Their>>();
  } else if constexpr (opaque<Ours>() || opaque<Theirs>()) {
    return opaque<Ours>() && opaque<Theirs>();
  } else if constexpr (std::is_integral_v<Ours> && std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}
template <typename Ours, typename Theirs>
struct SameCall {
  static constexpr bool value = false;
};
template <typename Result, typename... Ours, typename TheirResult, typename... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) struct SameCall<Result (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool value = alike<Result, TheirResult>() && (alike<Ours, Theirs>() && ...);
};

#if defined(MLX_HAS_CUBLAS_LT)
using LtApi = cublas_lt::Api;
static_assert(cublas_lt::kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(cublas_lt::kReal32 == CUDA_R_32F && cublas_lt::kReal16 == CUDA_R_16F &&
              cublas_lt::kReal16B == CUDA_R_16BF);
static_assert(cublas_lt::kCompute32 == CUBLAS_COMPUTE_32F);
static_assert(cublas_lt::kComputeTF32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(cublas_lt::kKeep == CUBLAS_OP_N && cublas_lt::kTranspose == CUBLAS_OP_T);
static_assert(cublas_lt::kReduceInPlace == CUBLASLT_REDUCTION_SCHEME_INPLACE &&
              cublas_lt::kReduceInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(cublas_lt::kPlain == CUBLASLT_EPILOGUE_DEFAULT && cublas_lt::kRelu == CUBLASLT_EPILOGUE_RELU &&
              cublas_lt::kBias == CUBLASLT_EPILOGUE_BIAS && cublas_lt::kGelu == CUBLASLT_EPILOGUE_GELU &&
              cublas_lt::kBiasGradientB == CUBLASLT_EPILOGUE_BGRADB);
static_assert((cublas_lt::kRelu | cublas_lt::kBias) == CUBLASLT_EPILOGUE_RELU_BIAS &&
              (cublas_lt::kGelu | cublas_lt::kBias) == CUBLASLT_EPILOGUE_GELU_BIAS);
static_assert((cublas_lt::kGelu | cublas_lt::kAuxiliary) == CUBLASLT_EPILOGUE_GELU_AUX &&
              (cublas_lt::kGelu | cublas_lt::kAuxiliary | cublas_lt::kBias) == CUBLASLT_EPILOGUE_GELU_AUX_BIAS &&
              cublas_lt::kGeluGradient == CUBLASLT_EPILOGUE_DGELU);
static_assert(cublas_lt::kAuxPointer == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER &&
              cublas_lt::kAuxLeading == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD &&
              cublas_lt::kAuxType == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE);
static_assert(cublas_lt::kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA &&
              cublas_lt::kTransposeB == CUBLASLT_MATMUL_DESC_TRANSB &&
              cublas_lt::kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              cublas_lt::kBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER &&
              cublas_lt::kBiasType == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(cublas_lt::kMaxWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              cublas_lt::kReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
              cublas_lt::kAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              cublas_lt::kAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
              cublas_lt::kAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
              cublas_lt::kAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(cublas_lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t) &&
              alignof(cublas_lt::Algorithm) == alignof(cublasLtMatmulAlgo_t));
static_assert(sizeof(cublas_lt::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t) &&
              offsetof(cublas_lt::Heuristic, workspace_bytes) ==
                  offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
              offsetof(cublas_lt::Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(SameCall<decltype(LtApi::get_version), decltype(&cublasLtGetVersion)>::value);
static_assert(SameCall<decltype(LtApi::get_status_string), decltype(&cublasLtGetStatusString)>::value);
static_assert(SameCall<decltype(LtApi::create), decltype(&cublasLtCreate)>::value);
static_assert(SameCall<decltype(LtApi::matmul_desc_create), decltype(&cublasLtMatmulDescCreate)>::value);
static_assert(SameCall<decltype(LtApi::matmul_desc_destroy), decltype(&cublasLtMatmulDescDestroy)>::value);
static_assert(SameCall<decltype(LtApi::matmul_desc_set), decltype(&cublasLtMatmulDescSetAttribute)>::value);
static_assert(SameCall<decltype(LtApi::layout_create), decltype(&cublasLtMatrixLayoutCreate)>::value);
static_assert(SameCall<decltype(LtApi::layout_destroy), decltype(&cublasLtMatrixLayoutDestroy)>::value);
static_assert(SameCall<decltype(LtApi::preference_create), decltype(&cublasLtMatmulPreferenceCreate)>::value);
static_assert(SameCall<decltype(LtApi::preference_destroy), decltype(&cublasLtMatmulPreferenceDestroy)>::value);
static_assert(SameCall<decltype(LtApi::preference_set), decltype(&cublasLtMatmulPreferenceSetAttribute)>::value);
static_assert(SameCall<decltype(LtApi::heuristic), decltype(&cublasLtMatmulAlgoGetHeuristic)>::value);
static_assert(SameCall<decltype(LtApi::matmul), decltype(&cublasLtMatmul)>::value);
#endif

#if defined(MLX_HAS_CUDNN)
using DnnApi = cudnn::Api;
static_assert(cudnn::kSuccess == CUDNN_STATUS_SUCCESS && cudnn::kNotSupported == CUDNN_STATUS_NOT_SUPPORTED);
static_assert(cudnn::kFloat == CUDNN_DATA_FLOAT && cudnn::kHalf == CUDNN_DATA_HALF &&
              cudnn::kBFloat16 == CUDNN_DATA_BFLOAT16);
static_assert(cudnn::kNhwc == CUDNN_TENSOR_NHWC && cudnn::kCrossCorrelation == CUDNN_CROSS_CORRELATION);
static_assert(cudnn::kTensorOpMath == CUDNN_TENSOR_OP_MATH && cudnn::kFmaMath == CUDNN_FMA_MATH);
static_assert(cudnn::kForwardPrecomputed == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM &&
              cudnn::kDataDeterministic == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 &&
              cudnn::kFilterDeterministic == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
static_assert(SameCall<decltype(DnnApi::get_version), decltype(&cudnnGetVersion)>::value);
static_assert(SameCall<decltype(DnnApi::get_error_string), decltype(&cudnnGetErrorString)>::value);
static_assert(SameCall<decltype(DnnApi::create), decltype(&cudnnCreate)>::value);
static_assert(SameCall<decltype(DnnApi::set_stream), decltype(&cudnnSetStream)>::value);
static_assert(SameCall<decltype(DnnApi::tensor_create), decltype(&cudnnCreateTensorDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::tensor_destroy), decltype(&cudnnDestroyTensorDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::tensor_set), decltype(&cudnnSetTensor4dDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::filter_create), decltype(&cudnnCreateFilterDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::filter_destroy), decltype(&cudnnDestroyFilterDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::filter_set), decltype(&cudnnSetFilter4dDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::convolution_create), decltype(&cudnnCreateConvolutionDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::convolution_destroy), decltype(&cudnnDestroyConvolutionDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::convolution_set), decltype(&cudnnSetConvolution2dDescriptor)>::value);
static_assert(SameCall<decltype(DnnApi::convolution_groups), decltype(&cudnnSetConvolutionGroupCount)>::value);
static_assert(SameCall<decltype(DnnApi::convolution_math), decltype(&cudnnSetConvolutionMathType)>::value);
static_assert(SameCall<decltype(DnnApi::forward_bytes), decltype(&cudnnGetConvolutionForwardWorkspaceSize)>::value);
static_assert(SameCall<decltype(DnnApi::data_bytes), decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize)>::value);
static_assert(
    SameCall<decltype(DnnApi::filter_bytes), decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize)>::value);
static_assert(SameCall<decltype(DnnApi::forward), decltype(&cudnnConvolutionForward)>::value);
static_assert(SameCall<decltype(DnnApi::backward_data), decltype(&cudnnConvolutionBackwardData)>::value);
static_assert(SameCall<decltype(DnnApi::backward_filter), decltype(&cudnnConvolutionBackwardFilter)>::value);
#endif

#if defined(MLX_HAS_NCCL)
using NcclApi = nccl::Api;
static_assert(nccl::kSuccess == ncclSuccess && nccl::kSystemError == ncclSystemError &&
              nccl::kInvalidArgument == ncclInvalidArgument && nccl::kInvalidUsage == ncclInvalidUsage &&
              nccl::kRemoteError == ncclRemoteError && nccl::kInProgress == ncclInProgress);
static_assert(nccl::kFloat == ncclFloat && sizeof(nccl::Id) == sizeof(ncclUniqueId));
static_assert(SameCall<decltype(NcclApi::get_unique_id), decltype(&ncclGetUniqueId)>::value);
static_assert(SameCall<decltype(NcclApi::init_rank), decltype(&ncclCommInitRank)>::value);
static_assert(SameCall<decltype(NcclApi::destroy), decltype(&ncclCommDestroy)>::value);
static_assert(SameCall<decltype(NcclApi::abort), decltype(&ncclCommAbort)>::value);
static_assert(SameCall<decltype(NcclApi::get_async_error), decltype(&ncclCommGetAsyncError)>::value);
static_assert(SameCall<decltype(NcclApi::get_error_string), decltype(&ncclGetErrorString)>::value);
static_assert(SameCall<decltype(NcclApi::get_last_error), decltype(&ncclGetLastError)>::value);
static_assert(SameCall<decltype(NcclApi::group_start), decltype(&ncclGroupStart)>::value);
static_assert(SameCall<decltype(NcclApi::group_end), decltype(&ncclGroupEnd)>::value);
static_assert(SameCall<decltype(NcclApi::send), decltype(&ncclSend)>::value);
static_assert(SameCall<decltype(NcclApi::receive), decltype(&ncclRecv)>::value);
#endif

}  // namespace
}  // namespace mlx::kernels::cuda
