// An emulated libcudnn (libraries.h): 2-D convolutions of NHWC images in f32 and bf16, and their gradients. To test the
// fallbacks, it declines two things that the real library may decline: windows larger than 7 × 7, and windows of 5 × 5,
// the latter only when they are run. Without kFmaMath it multiplies f32 as tf32.
#include "kernels/cuda/cudnn.h"

#include <utility>
#include <vector>

#include "kernels/cuda_emulation/libraries.h"

namespace mlx::emulation {
namespace {

using namespace kernels::cuda::cudnn;

// cudnnStatus_t
constexpr int kNotInitialized = 1001, kBadParam = 2000, kNullPointer = 2002, kMisaligned = 2003, kTooSmall = 2006,
              kShapeMismatch = 2008, kExecutionFailed = 5000;

struct Context {
  cudaStream_t stream = nullptr;
};
struct Tensor {  // also a filter: n outputs with c channels each
  int type = -1, n = 0, c = 0, h = 0, w = 0;
};
struct Shape {
  int pad_h = 0, pad_w = 0, stride_h = 0, stride_w = 0, groups = 1, math = 0, compute = -1;
};

// A checked convolution, without descriptors.
struct Convolved {
  Tensor x, w, y;
  Shape shape;
};

std::size_t get_version() {
  return 91900;
}
const char* get_error_string(int status) {
  switch (status) {
    case kSuccess:
      return "CUDNN_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case kExecutionFailed:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return status >= kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
  }
}

int create(void** handle) {
  if (wanted_to_fail("cudnnCreate")) return kNotInitialized;
  static Context only;
  *handle = &only;
  return kSuccess;
}
int set_stream(void* handle, cudaStream_t stream) {
  static_cast<Context*>(handle)->stream = stream;
  return kSuccess;
}

int tensor_create(void** tensor) {
  *tensor = new Tensor;
  return kSuccess;
}
int tensor_destroy(void* tensor) {
  delete static_cast<Tensor*>(tensor);
  return kSuccess;
}
int describe(void* tensor, int format, int type, int n, int c, int h, int w) {
  if (n < 1 || c < 1 || h < 1 || w < 1) return kBadParam;
  if (format != kNhwc || (type != kFloat && type != kHalf && type != kBFloat16)) return kNotSupported;
  *static_cast<Tensor*>(tensor) = {type, n, c, h, w};
  return kSuccess;
}
int filter_set(void* filter, int type, int format, int k, int c, int h, int w) {
  return describe(filter, format, type, k, c, h, w);
}

int convolution_create(void** convolution) {
  *convolution = new Shape;
  return kSuccess;
}
int convolution_destroy(void* convolution) {
  delete static_cast<Shape*>(convolution);
  return kSuccess;
}
int convolution_set(void* convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,
                    int mode, int compute) {
  if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1) return kBadParam;
  if (dilation_h != 1 || dilation_w != 1 || mode != kCrossCorrelation || compute != kFloat) return kNotSupported;
  auto& shape = *static_cast<Shape*>(convolution);
  shape.pad_h = pad_h, shape.pad_w = pad_w, shape.stride_h = stride_h, shape.stride_w = stride_w;
  shape.compute = compute;
  return kSuccess;
}
int convolution_groups(void* convolution, int groups) {
  if (groups < 1) return kBadParam;
  static_cast<Shape*>(convolution)->groups = groups;
  return kSuccess;
}
int convolution_math(void* convolution, int math) {
  static_cast<Shape*>(convolution)->math = math;
  return kSuccess;
}

int windows(int size, int pad, int kernel, int stride) {
  return (size + 2 * pad - kernel) / stride + 1;
}

// The supported combinations: cuDNN API reference, cudnnConvolutionForward and its gradients, the tables of
// configurations FLOAT and PSEUDO_BFLOAT16: all tensors of one type, computed in f32.
int check(void* handle, void* x_desc, void* w_desc, void* y_desc, void* convolution, Convolved& out) {
  if (!handle || !x_desc || !w_desc || !y_desc || !convolution) return kNullPointer;
  const auto &x = *static_cast<Tensor*>(x_desc), &w = *static_cast<Tensor*>(w_desc), &y = *static_cast<Tensor*>(y_desc);
  const auto& shape = *static_cast<Shape*>(convolution);
  if (x.type < 0 || w.type < 0 || y.type < 0 || shape.compute < 0) return kBadParam;
  if (x.type != w.type || x.type != y.type) return kNotSupported;
  if (x.c != w.c * shape.groups || w.n % shape.groups != 0 || y.c != w.n || y.n != x.n ||
      y.h != windows(x.h, shape.pad_h, w.h, shape.stride_h) || y.w != windows(x.w, shape.pad_w, w.w, shape.stride_w))
    return kShapeMismatch;
  if (w.h > 7 || w.w > 7) return kNotSupported;
  out = {x, w, y, shape};
  return kSuccess;
}

std::size_t workspace_of(const Convolved& c) {
  return std::size_t{64} * static_cast<std::size_t>(c.w.h) * static_cast<std::size_t>(c.w.w);
}

int size_of(void* handle, void* x, void* w, void* y, void* convolution, int algorithm, std::size_t* bytes) {
  Convolved checked{};
  const int status = check(handle, x, w, y, convolution, checked);
  if (status != kSuccess) return status;
  if (algorithm != kForwardPrecomputed) return kNotSupported;  // 1 in every direction
  *bytes = workspace_of(checked);
  return kSuccess;
}
int forward_bytes(void* handle, void* x, void* w, void* convolution, void* y, int algorithm, std::size_t* bytes) {
  return size_of(handle, x, w, y, convolution, algorithm, bytes);
}
int data_bytes(void* handle, void* w, void* dy, void* convolution, void* dx, int algorithm, std::size_t* bytes) {
  return size_of(handle, dx, w, dy, convolution, algorithm, bytes);
}
int filter_bytes(void* handle, void* x, void* dy, void* convolution, void* dw, int algorithm, std::size_t* bytes) {
  return size_of(handle, x, dw, dy, convolution, algorithm, bytes);
}

std::size_t elements(const Tensor& t) {
  std::size_t count = 1;
  for (const int size : {t.n, t.c, t.h, t.w}) count *= static_cast<std::size_t>(size);
  return count;
}

kernels::DType dtype_of(const Tensor& tensor) {
  using kernels::DType;
  return tensor.type == kBFloat16 ? DType::kBF16 : tensor.type == kHalf ? DType::kF16 : DType::kF32;
}

// The factors, in f32.
std::vector<float> factors(const Convolved& c, const Tensor& tensor, const void* data) {
  std::vector<float> out(elements(tensor));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = load(data, dtype_of(tensor), static_cast<std::int64_t>(i));
    if (tensor.type == kFloat && c.shape.math != kFmaMath) out[i] = cut_to_tf32(out[i]);
  }
  return out;
}
void put(const Tensor& tensor, void* data, const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    store(data, dtype_of(tensor), static_cast<std::int64_t>(i), values[i]);
}

std::size_t at(const Tensor& t, int n, int h, int w, int c) {
  std::size_t index = 0;
  for (const auto& [place, size] : {std::pair{n, t.n}, {h, t.h}, {w, t.w}, {c, t.c}})
    index = index * static_cast<std::size_t>(size) + static_cast<std::size_t>(place);
  return index;
}

// Calls body(x, w, y) with the index of a pixel of x, of the weight that it is multiplied by, and of the pixel of y
// that the product is added to.
template <typename Body>
void each_tap(const Convolved& c, Body body) {
  const auto& [x, w, y, shape] = c;
  const int outputs = w.n / shape.groups;
  for (int n = 0; n < y.n; ++n)
    for (int oh = 0; oh < y.h; ++oh)
      for (int ow = 0; ow < y.w; ++ow)
        for (int kh = 0; kh < w.h; ++kh)
          for (int kw = 0; kw < w.w; ++kw) {
            const int ih = oh * shape.stride_h - shape.pad_h + kh, iw = ow * shape.stride_w - shape.pad_w + kw;
            if (ih < 0 || ih >= x.h || iw < 0 || iw >= x.w) continue;
            for (int o = 0; o < w.n; ++o)
              for (int i = 0; i < w.c; ++i)
                body(at(x, n, ih, iw, o / outputs * w.c + i), at(w, o, kh, kw, i), at(y, n, oh, ow, o));
          }
}

struct Operand {
  Tensor is;
  const void* data;
};
struct Call {
  const char* name;
  void* handle;
  const void *alpha, *beta;
  int algorithm;
  void* workspace;
  std::size_t bytes;
};
using Values = std::vector<float>;

// Launches compute(values of a, values of b, sums), with the sums in `result`, if everything is as planned.
template <typename Compute>
int launched(const Call& call, const Convolved& c, const Operand& a, const Operand& b, const Tensor& result_is,
             void* result, Compute compute) {
  if (c.w.h == 5 && c.w.w == 5) return kNotSupported;
  if (*static_cast<const float*>(call.alpha) != 1.0f || *static_cast<const float*>(call.beta) != 0.0f ||
      call.algorithm != kForwardPrecomputed)
    return kNotSupported;
  for (const void* pointer :
       {a.data, b.data, static_cast<const void*>(result), static_cast<const void*>(call.workspace)}) {
    if (!pointer) return kNullPointer;
    if (!multiple_of(pointer, 16)) return kMisaligned;
  }
  const std::size_t needed = workspace_of(c);
  if (call.bytes < needed) return kTooSmall;
  if (wanted_to_fail(call.name)) return kExecutionFailed;
  const auto work = [=, workspace = call.workspace] {
    std::memset(workspace, 0xff, needed);
    Values sums(elements(result_is));
    compute(factors(c, a.is, a.data), factors(c, b.is, b.data), sums);
    put(result_is, result, sums);
  };
  return launch_on(static_cast<Context*>(call.handle)->stream, work) ? kSuccess : kExecutionFailed;
}

int forward(void* handle, const void* alpha, void* x_desc, const void* x, void* w_desc, const void* w,
            void* convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta, void* y_desc,
            void* y) {
  Convolved c{};
  const int status = check(handle, x_desc, w_desc, y_desc, convolution, c);
  if (status != kSuccess) return status;
  const auto compute = [c](const Values& from, const Values& weights, Values& sums) {
    each_tap(c,
             [&](std::size_t x_at, std::size_t w_at, std::size_t y_at) { sums[y_at] += from[x_at] * weights[w_at]; });
  };
  return launched({"cudnnConvolutionForward", handle, alpha, beta, algorithm, workspace, bytes}, c, {c.x, x}, {c.w, w},
                  c.y, y, compute);
}

int backward_data(void* handle, const void* alpha, void* w_desc, const void* w, void* dy_desc, const void* dy,
                  void* convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta, void* dx_desc,
                  void* dx) {
  Convolved c{};
  const int status = check(handle, dx_desc, w_desc, dy_desc, convolution, c);
  if (status != kSuccess) return status;
  const auto compute = [c](const Values& from, const Values& weights, Values& sums) {
    each_tap(c,
             [&](std::size_t x_at, std::size_t w_at, std::size_t y_at) { sums[x_at] += from[y_at] * weights[w_at]; });
  };
  return launched({"cudnnConvolutionBackwardData", handle, alpha, beta, algorithm, workspace, bytes}, c, {c.y, dy},
                  {c.w, w}, c.x, dx, compute);
}

int backward_filter(void* handle, const void* alpha, void* x_desc, const void* x, void* dy_desc, const void* dy,
                    void* convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta,
                    void* dw_desc, void* dw) {
  Convolved c{};
  const int status = check(handle, x_desc, dw_desc, dy_desc, convolution, c);
  if (status != kSuccess) return status;
  const auto compute = [c](const Values& from, const Values& gradient, Values& sums) {
    each_tap(c,
             [&](std::size_t x_at, std::size_t w_at, std::size_t y_at) { sums[w_at] += from[x_at] * gradient[y_at]; });
  };
  return launched({"cudnnConvolutionBackwardFilter", handle, alpha, beta, algorithm, workspace, bytes}, c, {c.x, x},
                  {c.y, dy}, c.w, dw, compute);
}

}  // namespace

std::span<const Function> cudnn_functions() {
  static const Function all[] = {
      exported("cudnnGetVersion", &Api::get_version, get_version),
      exported("cudnnGetErrorString", &Api::get_error_string, get_error_string),
      exported("cudnnCreate", &Api::create, create),
      exported("cudnnSetStream", &Api::set_stream, set_stream),
      exported("cudnnCreateTensorDescriptor", &Api::tensor_create, tensor_create),
      exported("cudnnDestroyTensorDescriptor", &Api::tensor_destroy, tensor_destroy),
      exported("cudnnSetTensor4dDescriptor", &Api::tensor_set, describe),
      exported("cudnnCreateFilterDescriptor", &Api::filter_create, tensor_create),
      exported("cudnnDestroyFilterDescriptor", &Api::filter_destroy, tensor_destroy),
      exported("cudnnSetFilter4dDescriptor", &Api::filter_set, filter_set),
      exported("cudnnCreateConvolutionDescriptor", &Api::convolution_create, convolution_create),
      exported("cudnnDestroyConvolutionDescriptor", &Api::convolution_destroy, convolution_destroy),
      exported("cudnnSetConvolution2dDescriptor", &Api::convolution_set, convolution_set),
      exported("cudnnSetConvolutionGroupCount", &Api::convolution_groups, convolution_groups),
      exported("cudnnSetConvolutionMathType", &Api::convolution_math, convolution_math),
      exported("cudnnGetConvolutionForwardWorkspaceSize", &Api::forward_bytes, forward_bytes),
      exported("cudnnGetConvolutionBackwardDataWorkspaceSize", &Api::data_bytes, data_bytes),
      exported("cudnnGetConvolutionBackwardFilterWorkspaceSize", &Api::filter_bytes, filter_bytes),
      exported("cudnnConvolutionForward", &Api::forward, forward),
      exported("cudnnConvolutionBackwardData", &Api::backward_data, backward_data),
      exported("cudnnConvolutionBackwardFilter", &Api::backward_filter, backward_filter),
  };
  return all;
}

}  // namespace mlx::emulation
