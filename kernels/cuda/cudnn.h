// cuDNN: declarations of the part of its API that is used, so that mlx builds without its headers, and the planning of
// convolutions. Values and signatures are those of the cuDNN 9 API reference, libraries cudnn_graph, cudnn_ops and
// cudnn_cnn; library_check.cu compares them with the real headers if there are any. Used by library_conv.cu.
#pragma once

#include <memory>

#include "kernels/cuda/library.h"

namespace mlx::kernels::cuda::cudnn {

inline constexpr int kSuccess = 0, kNotSupported = 3000, kNotSupportedEnd = 4000;  // cudnnStatus_t
inline constexpr int kFloat = 0, kHalf = 2, kBFloat16 = 9;                         // cudnnDataType_t
inline constexpr int kNhwc = 1;                        // cudnnTensorFormat_t; of filters [K,H,W,C]
inline constexpr int kCrossCorrelation = 1;            // cudnnConvolutionMode_t
inline constexpr int kTensorOpMath = 1, kFmaMath = 3;  // kFmaMath does not round f32 to tf32
// cudnnConvolutionFwdAlgo_t, BwdDataAlgo_t, BwdFilterAlgo_t: the deterministic ones that take NHWC and half types
inline constexpr int kForwardPrecomputed = 1, kDataDeterministic = 1, kFilterDeterministic = 1;

// The library's functions by name. Handles and descriptors are opaque pointers.
struct Api {
  std::size_t (*get_version)();                          // cudnnGetVersion
  const char* (*get_error_string)(int status);           // cudnnGetErrorString
  int (*create)(void** handle);                          // cudnnCreate
  int (*set_stream)(void* handle, cudaStream_t stream);  // cudnnSetStream
  int (*tensor_create)(void** tensor);                   // cudnnCreateTensorDescriptor
  int (*tensor_destroy)(void* tensor);
  int (*tensor_set)(void* tensor, int format, int type, int n, int c, int h, int w);  // cudnnSetTensor4dDescriptor
  int (*filter_create)(void** filter);                                                // cudnnCreateFilterDescriptor
  int (*filter_destroy)(void* filter);
  int (*filter_set)(void* filter, int type, int format, int k, int c, int h, int w);  // cudnnSetFilter4dDescriptor
  int (*convolution_create)(void** convolution);  // cudnnCreateConvolutionDescriptor
  int (*convolution_destroy)(void* convolution);
  // cudnnSetConvolution2dDescriptor
  int (*convolution_set)(void* convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                         int dilation_w, int mode, int compute);
  int (*convolution_groups)(void* convolution, int groups);  // cudnnSetConvolutionGroupCount
  int (*convolution_math)(void* convolution, int math);      // cudnnSetConvolutionMathType
  int (*forward_bytes)(void* handle, void* x, void* w, void* convolution, void* y, int algorithm, std::size_t* bytes);
  int (*data_bytes)(void* handle, void* w, void* dy, void* convolution, void* dx, int algorithm, std::size_t* bytes);
  int (*filter_bytes)(void* handle, void* x, void* dy, void* convolution, void* dw, int algorithm, std::size_t* bytes);
  // cudnnConvolutionForward, BackwardData, BackwardFilter: result = alpha · … + beta · result
  int (*forward)(void* handle, const void* alpha, void* x_desc, const void* x, void* w_desc, const void* w,
                 void* convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta, void* y_desc,
                 void* y);
  int (*backward_data)(void* handle, const void* alpha, void* w_desc, const void* w, void* dy_desc, const void* dy,
                       void* convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta,
                       void* dx_desc, void* dx);
  int (*backward_filter)(void* handle, const void* alpha, void* x_desc, const void* x, void* dy_desc, const void* dy,
                         void* convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta,
                         void* dw_desc, void* dw);
};
// Null if the library is missing. Opened once.
const Api* api();

// One of the three directions of a convolution: x[n,h,w,c] * w[o,kh,kw,c/groups] = y[n,oh,ow,o].
struct Convolution {
  Op op{};
  void *x = nullptr, *w = nullptr, *y = nullptr, *shape = nullptr;  // descriptors
  std::size_t workspace_bytes = 0;                                  // at a multiple of kWorkspaceAlignment

  Convolution() = default;
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;
  ~Convolution();
};

// Null if the library is missing or declines; it does not support padding that differs between opposite sides. All
// three tensors have `type`; sums are in f32. With attrs.tf32, f32 factors may be rounded to tf32.
std::unique_ptr<Convolution> plan_convolution(Op op, const Geometry& g, const Attrs& attrs, DType type);

// Launches the convolution on args.stream; tensors are at multiples of kTensorAlignment. `first` and `second` are the
// operation's inputs in op_list.h, `result` its first output. Returns false, and launches nothing, if the library
// declines only now; that is the same for every run of a plan, because it depends on sizes alone. Other errors are kept
// for Device::wait, with the operation's name.
bool run_convolution(const Args& args, const Convolution& plan, const void* first, const void* second, void* result,
                     void* workspace);

}  // namespace mlx::kernels::cuda::cudnn
