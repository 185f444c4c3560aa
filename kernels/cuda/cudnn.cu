// Convolutions with cuDNN (cudnn.h).
#include "kernels/cuda/cudnn.h"

#include <limits>
#include <mutex>

#include "kernels/cuda/module.h"

namespace mlx::kernels::cuda::cudnn {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{256} << 20;

bool find_all(void* library, Api& api) {
  return library && find(library, "cudnnGetVersion", api.get_version) &&
         find(library, "cudnnGetErrorString", api.get_error_string) && find(library, "cudnnCreate", api.create) &&
         find(library, "cudnnSetStream", api.set_stream) &&
         find(library, "cudnnCreateTensorDescriptor", api.tensor_create) &&
         find(library, "cudnnDestroyTensorDescriptor", api.tensor_destroy) &&
         find(library, "cudnnSetTensor4dDescriptor", api.tensor_set) &&
         find(library, "cudnnCreateFilterDescriptor", api.filter_create) &&
         find(library, "cudnnDestroyFilterDescriptor", api.filter_destroy) &&
         find(library, "cudnnSetFilter4dDescriptor", api.filter_set) &&
         find(library, "cudnnCreateConvolutionDescriptor", api.convolution_create) &&
         find(library, "cudnnDestroyConvolutionDescriptor", api.convolution_destroy) &&
         find(library, "cudnnSetConvolution2dDescriptor", api.convolution_set) &&
         find(library, "cudnnSetConvolutionGroupCount", api.convolution_groups) &&
         find(library, "cudnnSetConvolutionMathType", api.convolution_math) &&
         find(library, "cudnnGetConvolutionForwardWorkspaceSize", api.forward_bytes) &&
         find(library, "cudnnGetConvolutionBackwardDataWorkspaceSize", api.data_bytes) &&
         find(library, "cudnnGetConvolutionBackwardFilterWorkspaceSize", api.filter_bytes) &&
         find(library, "cudnnConvolutionForward", api.forward) &&
         find(library, "cudnnConvolutionBackwardData", api.backward_data) &&
         find(library, "cudnnConvolutionBackwardFilter", api.backward_filter);
}

// One handle per GPU. Threads take turns, because a handle holds the stream of the call in progress.
struct Handle {
  std::mutex mutex;
  void* context = nullptr;  // null if it cannot be made, which is reported
  Handle() {
    const int status = api()->create(&context);
    if (status == kSuccess) return;
    report("cuDNN", "cudnnCreate", api()->get_error_string(status));
    context = nullptr;
  }
};
Handle& handle() {
  return of_current_device<Handle>();
}

// The library's name of a type; -1 if it does not convolve that type.
int data_type(DType type) {
  switch (type) {
    case DType::kF32:
      return kFloat;
    case DType::kBF16:
      return kBFloat16;
    case DType::kF16:
      return kHalf;
    default:
      return -1;
  }
}

int math_type(DType type, const Attrs& attrs) {
  return type == DType::kF32 && !attrs.tf32 ? kFmaMath : kTensorOpMath;
}

// The library takes sizes as ints, and may take offsets as ints.
bool fits(const Geometry& g) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t x = g.n * g.h * g.w * g.c, y = g.n * g.oh * g.ow * g.o, w = g.o * g.kh * g.kw * (g.c / g.groups);
  return x > 0 && y > 0 && w > 0 && x <= kMost && y <= kMost && w <= kMost;
}

bool make_tensor(void*& tensor, int type, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return api()->tensor_create(&tensor) == kSuccess &&
         api()->tensor_set(tensor, kNhwc, type, static_cast<int>(n), static_cast<int>(c), static_cast<int>(h),
                           static_cast<int>(w)) == kSuccess;
}

bool make_filter(void*& filter, int type, const Geometry& g) {
  return api()->filter_create(&filter) == kSuccess &&
         api()->filter_set(filter, type, kNhwc, static_cast<int>(g.o), static_cast<int>(g.c / g.groups),
                           static_cast<int>(g.kh), static_cast<int>(g.kw)) == kSuccess;
}

bool make_shape(void*& shape, int math, const Geometry& g) {
  return api()->convolution_create(&shape) == kSuccess &&
         api()->convolution_set(shape, static_cast<int>(g.pt), static_cast<int>(g.pl), static_cast<int>(g.sh),
                                static_cast<int>(g.sw), 1, 1, kCrossCorrelation, kFloat) == kSuccess &&
         api()->convolution_groups(shape, static_cast<int>(g.groups)) == kSuccess &&
         api()->convolution_math(shape, math) == kSuccess;
}

// This is where the library tells whether it takes the problem.
bool ask_for_workspace(Convolution& plan) {
  Handle& h = handle();
  const std::lock_guard lock(h.mutex);
  if (!h.context) return false;
  int status = kSuccess;
  std::size_t& bytes = plan.workspace_bytes;
  if (plan.op == Op::kConv2d)
    status = api()->forward_bytes(h.context, plan.x, plan.w, plan.shape, plan.y, kForwardPrecomputed, &bytes);
  else if (plan.op == Op::kConv2dBackwardData)
    status = api()->data_bytes(h.context, plan.w, plan.y, plan.shape, plan.x, kDataDeterministic, &bytes);
  else
    status = api()->filter_bytes(h.context, plan.x, plan.y, plan.shape, plan.w, kFilterDeterministic, &bytes);
  return status == kSuccess && bytes <= kMostWorkspace;
}

}  // namespace

const Api* api() {
  static const Api* const only = [] {
    static Api found{};
    return find_all(open_library({"libcudnn.so.9"}), found) ? &found : nullptr;
  }();
  return only;
}

Convolution::~Convolution() {
  if (x) static_cast<void>(api()->tensor_destroy(x));
  if (y) static_cast<void>(api()->tensor_destroy(y));
  if (w) static_cast<void>(api()->filter_destroy(w));
  if (shape) static_cast<void>(api()->convolution_destroy(shape));
}

std::unique_ptr<Convolution> plan_convolution(Op op, const Geometry& g, const Attrs& attrs, DType type) {
  const int named = data_type(type);
  if (named < 0 || !fits(g) || attrs.pad[0] != attrs.pad[1] || attrs.pad[2] != attrs.pad[3] || !api()) return nullptr;
  auto plan = std::make_unique<Convolution>();
  plan->op = op;
  const bool made = make_tensor(plan->x, named, g.n, g.h, g.w, g.c) && make_filter(plan->w, named, g) &&
                    make_tensor(plan->y, named, g.n, g.oh, g.ow, g.o) &&
                    make_shape(plan->shape, math_type(type, attrs), g) && ask_for_workspace(*plan);
  return made ? std::move(plan) : nullptr;
}

bool run_convolution(const Args& args, const Convolution& plan, const void* first, const void* second, void* result,
                     void* workspace) {
  const Api& dnn = *api();
  Handle& h = handle();
  const std::lock_guard lock(h.mutex);
  const float one = 1.0f, zero = 0.0f;
  const std::size_t bytes = plan.workspace_bytes;
  const char* call = "cudnnSetStream";
  int status = dnn.set_stream(h.context, static_cast<cudaStream_t>(args.stream));
  if (status == kSuccess && plan.op == Op::kConv2d) {
    call = "cudnnConvolutionForward";
    status = dnn.forward(h.context, &one, plan.x, first, plan.w, second, plan.shape, kForwardPrecomputed, workspace,
                         bytes, &zero, plan.y, result);
  } else if (status == kSuccess && plan.op == Op::kConv2dBackwardData) {
    call = "cudnnConvolutionBackwardData";
    status = dnn.backward_data(h.context, &one, plan.w, second, plan.y, first, plan.shape, kDataDeterministic,
                               workspace, bytes, &zero, plan.x, result);
  } else if (status == kSuccess) {
    call = "cudnnConvolutionBackwardFilter";
    status = dnn.backward_filter(h.context, &one, plan.x, first, plan.y, second, plan.shape, kFilterDeterministic,
                                 workspace, bytes, &zero, plan.w, result);
  }
  if (status >= kNotSupported && status < kNotSupportedEnd) return false;
  if (status != kSuccess) report(name_of(plan.op), call, dnn.get_error_string(status));
  return true;
}

}  // namespace mlx::kernels::cuda::cudnn
