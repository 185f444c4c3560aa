// Products with cuBLASLt (cublas_lt.h).
#include "kernels/cuda/cublas_lt.h"

#include "kernels/cuda/module.h"

namespace mlx::kernels::cuda::cublas_lt {
namespace {

constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20;

// Prefers the library of the CUDA version that mlx was built with.
void* open() {
  int runtime = 0;
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (runtime / 1000 == 12) return open_library({"libcublasLt.so.12", "libcublasLt.so.13"});
  return open_library({"libcublasLt.so.13", "libcublasLt.so.12"});
}

bool find_all(void* library, Api& api) {
  return library && find(library, "cublasLtGetVersion", api.get_version) &&
         find(library, "cublasLtGetStatusString", api.get_status_string) &&
         find(library, "cublasLtCreate", api.create) &&
         find(library, "cublasLtMatmulDescCreate", api.matmul_desc_create) &&
         find(library, "cublasLtMatmulDescDestroy", api.matmul_desc_destroy) &&
         find(library, "cublasLtMatmulDescSetAttribute", api.matmul_desc_set) &&
         find(library, "cublasLtMatrixLayoutCreate", api.layout_create) &&
         find(library, "cublasLtMatrixLayoutDestroy", api.layout_destroy) &&
         find(library, "cublasLtMatmulPreferenceCreate", api.preference_create) &&
         find(library, "cublasLtMatmulPreferenceDestroy", api.preference_destroy) &&
         find(library, "cublasLtMatmulPreferenceSetAttribute", api.preference_set) &&
         find(library, "cublasLtMatmulAlgoGetHeuristic", api.heuristic) && find(library, "cublasLtMatmul", api.matmul);
}

// One handle per GPU; several threads may use it at once. Null if it cannot be made: that is reported, because
// library_versions() says that the library is used.
void* handle() {
  struct Handle {
    void* created = nullptr;
    Handle() {
      const int status = api()->create(&created);
      if (status == kSuccess) return;
      report("cuBLASLt", "cublasLtCreate", api()->get_status_string(status));
      created = nullptr;
    }
  };
  return of_current_device<Handle>().created;
}

// The library's name of a type; -1 if it does not multiply that type.
int data_type(DType type) {
  switch (type) {
    case DType::kF32:
      return kReal32;
    case DType::kBF16:
      return kReal16B;
    case DType::kF16:
      return kReal16;
    default:
      return -1;
  }
}

// The type that products are computed in: f32 throughout. kCompute32 does not use tf32 for f32.
int compute_type(const Product& product) {
  return product.tf32 && product.factors == DType::kF32 ? kComputeTF32 : kCompute32;
}

template <typename Value>
bool set(int (*setter)(void*, int, const void*, std::size_t), void* of, int attribute, const Value& value) {
  return setter(of, attribute, &value, sizeof value) == kSuccess;
}

bool make_operation(const Product& product, Matmul& plan) {
  const Api& lt = *api();
  if (lt.matmul_desc_create(&plan.operation, compute_type(product), kReal32) != kSuccess) return false;
  const std::int32_t transpose_a = product.transpose_a ? kTranspose : kKeep;
  const std::int32_t transpose_b = product.transpose_b ? kTranspose : kKeep;
  if (!set(lt.matmul_desc_set, plan.operation, kTransposeA, transpose_a) ||
      !set(lt.matmul_desc_set, plan.operation, kTransposeB, transpose_b) ||
      !set(lt.matmul_desc_set, plan.operation, kEpilogue, std::uint32_t{product.epilogue}))
    return false;
  plan.takes_vector = (product.epilogue & (kBias | kBiasGradientB)) != 0;
  plan.takes_matrix = (product.epilogue & kAuxiliary) != 0;
  // Not dereferenced while planning; it only has the alignment of the real pointer.
  const auto* like = reinterpret_cast<const void*>(kWorkspaceAlignment | kTensorAlignment);
  const std::int32_t type = data_type(product.result);
  if (plan.takes_vector && (!set(lt.matmul_desc_set, plan.operation, kBiasType, type) ||
                            !set(lt.matmul_desc_set, plan.operation, kBiasPointer, like)))
    return false;
  return !plan.takes_matrix || (set(lt.matmul_desc_set, plan.operation, kAuxType, type) &&
                                set(lt.matmul_desc_set, plan.operation, kAuxLeading, product.m) &&
                                set(lt.matmul_desc_set, plan.operation, kAuxPointer, like));
}

bool make_layouts(const Product& product, Matmul& plan) {
  const auto make = [](void*& layout, DType type, std::int64_t rows, std::int64_t columns) {
    return api()->layout_create(&layout, data_type(type), static_cast<std::uint64_t>(rows),
                                static_cast<std::uint64_t>(columns), rows) == kSuccess;
  };
  const std::int64_t m = product.m, n = product.n, k = product.k;
  return make(plan.a, product.factors, product.transpose_a ? k : m, product.transpose_a ? m : k) &&
         make(plan.b, product.factors, product.transpose_b ? n : k, product.transpose_b ? k : n) &&
         make(plan.d, product.result, m, n);
}

// Split sums are kept in f32 and added in a separate step. In the result's type they would be rounded first, and blocks
// that add in place do so in the order in which they finish.
bool prefer(void* preference) {
  const auto setter = api()->preference_set;
  bool good = set(setter, preference, kMaxWorkspace, kMostWorkspace) &&
              set(setter, preference, kReductionSchemes, std::uint32_t{kReduceInComputeType});
  for (const int attribute : {kAlignmentA, kAlignmentB, kAlignmentC, kAlignmentD})
    good = good && set(setter, preference, attribute, std::uint32_t{kTensorAlignment});
  return good;
}

// Asks the library once. The answer is the same for the same sizes, GPU and version.
bool choose(Matmul& plan) {
  const Api& lt = *api();
  void* preference = nullptr;
  if (lt.preference_create(&preference) != kSuccess) return false;
  Heuristic best{};
  int found = 0;
  const bool chosen = prefer(preference) &&
                      lt.heuristic(handle(), plan.operation, plan.a, plan.b, plan.d, plan.d, preference, 1, &best,
                                   &found) == kSuccess &&
                      found > 0 && best.state == kSuccess;
  static_cast<void>(lt.preference_destroy(preference));
  plan.algorithm = best.algorithm;
  plan.workspace_bytes = best.workspace_bytes;
  return chosen;
}

}  // namespace

const Api* api() {
  static const Api* const only = [] {
    static Api found{};
    return find_all(open(), found) ? &found : nullptr;
  }();
  return only;
}

Matmul::~Matmul() {
  if (operation) static_cast<void>(api()->matmul_desc_destroy(operation));
  for (void* layout : {a, b, d})
    if (layout) static_cast<void>(api()->layout_destroy(layout));
}

std::unique_ptr<Matmul> plan_matmul(const Product& product) {
  if (product.m < 1 || product.n < 1 || product.k < 1) return nullptr;
  if (data_type(product.factors) < 0 || data_type(product.result) < 0 || !api() || !handle()) return nullptr;
  auto planned = std::make_unique<Matmul>();
  if (!make_operation(product, *planned) || !make_layouts(product, *planned) || !choose(*planned)) return nullptr;
  return planned;
}

void run_matmul(const char* operation, const Args& args, const Matmul& plan, const Operands& on) {
  const Api& lt = *api();
  if (plan.takes_vector && !set(lt.matmul_desc_set, plan.operation, kBiasPointer, on.vector))
    return report(operation, "cublasLtMatmulDescSetAttribute", "the bias is refused");
  if (plan.takes_matrix && !set(lt.matmul_desc_set, plan.operation, kAuxPointer, on.matrix))
    return report(operation, "cublasLtMatmulDescSetAttribute", "the matrix of the epilogue is refused");
  const float one = 1.0f, zero = 0.0f;
  const int status =
      lt.matmul(handle(), plan.operation, &one, on.a, plan.a, on.b, plan.b, &zero, on.d, plan.d, on.d, plan.d,
                &plan.algorithm, on.workspace, plan.workspace_bytes, static_cast<cudaStream_t>(args.stream));
  if (status != kSuccess) report(operation, "cublasLtMatmul", lt.get_status_string(status));
}

}  // namespace mlx::kernels::cuda::cublas_lt
