// An emulated libcublasLt (libraries.h): column-major products of f32, bf16 and f16 with their epilogues. To test the
// fallbacks, it declines two things that the real library may decline: products of vectors (k = 1) and the bias
// gradient in f32. If parts of a sum may be added in place, it adds them in another order each time.
#include "kernels/cuda/cublas_lt.h"

#include <atomic>
#include <cmath>
#include <vector>

#include "kernels/cuda_emulation/libraries.h"

namespace mlx::emulation {
namespace {

using namespace kernels::cuda::cublas_lt;

// cublasStatus_t
constexpr int kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15;
constexpr int kTheHandle = 0x17;

struct Operation {
  std::int32_t compute = 0, scale = 0, transpose_a = kKeep, transpose_b = kKeep, vector_type = -1;
  std::uint32_t epilogue = kPlain;
  void *vector = nullptr, *matrix = nullptr;
  std::int32_t matrix_type = -1;
  std::int64_t matrix_leading = 0;
};
struct Layout {
  std::int32_t type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = 7, alignment[4] = {256, 256, 256, 256};
};

// A checked product, without descriptors.
struct Multiplied {
  std::int64_t m, n, k, lda, ldb, ldd;
  bool transpose_a : 1, transpose_b : 1, tf32 : 1;
  kernels::DType factors, result;
  std::uint32_t epilogue;
};

// The contents of an Algorithm: the method, and the problem that it is for.
struct Chosen {
  Multiplied problem;
  std::uint32_t alignment;
  bool in_place;
  std::uint8_t parts;
};
static_assert(sizeof(Chosen) <= sizeof(Algorithm));

std::size_t get_version() {
  return 130100;
}
const char* get_status_string(int status) {
  switch (status) {
    case kSuccess:
      return "success";
    case kNotInitialized:
      return "the library was not initialized";
    case kInvalidValue:
      return "an unsupported value or parameter was passed to the function";
    case kExecutionFailed:
      return "the GPU program failed to execute";
    default:
      return "the requested functionality is not supported";
  }
}

int create(void** handle) {
  if (wanted_to_fail("cublasLtCreate")) return kNotInitialized;
  static int only = kTheHandle;
  *handle = &only;
  return kSuccess;
}

int matmul_desc_create(void** operation, int compute, int scale) {
  *operation = new Operation{compute, scale};
  return kSuccess;
}
int matmul_desc_destroy(void* operation) {
  delete static_cast<Operation*>(operation);
  return kSuccess;
}

template <typename Value>
int take(Value& value, const void* from, std::size_t bytes) {
  if (bytes != sizeof value) return kInvalidValue;
  std::memcpy(&value, from, bytes);
  return kSuccess;
}
int matmul_desc_set(void* operation, int attribute, const void* value, std::size_t bytes) {
  auto& o = *static_cast<Operation*>(operation);
  switch (attribute) {
    case kTransposeA:
      return take(o.transpose_a, value, bytes);
    case kTransposeB:
      return take(o.transpose_b, value, bytes);
    case kEpilogue:
      return take(o.epilogue, value, bytes);
    case kBiasPointer:
      return take(o.vector, value, bytes);
    case kBiasType:
      return take(o.vector_type, value, bytes);
    case kAuxPointer:
      return take(o.matrix, value, bytes);
    case kAuxLeading:
      return take(o.matrix_leading, value, bytes);
    case kAuxType:
      return take(o.matrix_type, value, bytes);
    default:
      return kInvalidValue;
  }
}

int layout_create(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  *layout = new Layout{type, rows, columns, leading};
  return kSuccess;
}
int layout_destroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return kSuccess;
}

int preference_create(void** preference) {
  *preference = new Preference;
  return kSuccess;
}
int preference_destroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return kSuccess;
}
int preference_set(void* preference, int attribute, const void* value, std::size_t bytes) {
  auto& p = *static_cast<Preference*>(preference);
  switch (attribute) {
    case kMaxWorkspace:
      return take(p.workspace, value, bytes);
    case kReductionSchemes:
      return take(p.schemes, value, bytes);
    case kAlignmentA:
    case kAlignmentB:
    case kAlignmentC:
    case kAlignmentD:
      return take(p.alignment[attribute - kAlignmentA], value, bytes);
    default:
      return kInvalidValue;
  }
}

bool dense(const Layout& l) {
  return l.rows > 0 && l.columns > 0 && l.leading >= static_cast<std::int64_t>(l.rows);
}
bool known(int type) {
  return type == kReal32 || type == kReal16 || type == kReal16B;
}
kernels::DType dtype_of(int type) {
  using kernels::DType;
  return type == kReal16B ? DType::kBF16 : type == kReal16 ? DType::kF16 : DType::kF32;
}

// The matrix beside D of a GELU epilogue: cuBLAS Library User Guide, cublasLtMatmulDescAttributes_t. mlx's is as dense
// as D, and in half precision.
int check_matrix(const Operation& o, const Layout& d) {
  if (!o.matrix || !multiple_of(o.matrix, 16)) return kInvalidValue;
  if (o.matrix_leading % 8 != 0 || o.matrix_leading < static_cast<std::int64_t>(d.rows)) return kInvalidValue;
  const bool like_d = (o.matrix_type == -1 || o.matrix_type == d.type) && o.matrix_leading == d.leading;
  return like_d && d.type != kReal32 ? kSuccess : kNotSupported;
}

// The supported combinations: cuBLAS Library User Guide, cublasLtMatmul, the table of types. An epilogue's vector has
// D's type.
int check(const Operation& o, const Layout& a, const Layout& b, const Layout& c, const Layout& d, Multiplied& out) {
  if (o.transpose_a < 0 || o.transpose_a > 1 || o.transpose_b < 0 || o.transpose_b > 1) return kInvalidValue;
  const bool ta = o.transpose_a == kTranspose, tb = o.transpose_b == kTranspose;
  const std::uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns, n = tb ? b.rows : b.columns;
  if (!dense(a) || !dense(b) || !dense(d) || k != (tb ? b.columns : b.rows) || d.rows != m || d.columns != n)
    return kInvalidValue;
  if (c.type != d.type || c.rows != d.rows || c.columns != d.columns || c.leading != d.leading) return kInvalidValue;
  const bool tf32 = o.compute == kComputeTF32;
  if ((o.compute != kCompute32 && !tf32) || (tf32 && a.type != kReal32) || o.scale != kReal32 || !known(a.type) ||
      a.type != b.type)
    return kNotSupported;
  if (d.type != a.type && d.type != kReal32) return kNotSupported;
  const std::uint32_t without_bias = o.epilogue & ~kBias;
  const bool gradient = o.epilogue == kBiasGradientB;
  const bool matrix = without_bias == (kGelu | kAuxiliary) || o.epilogue == kGeluGradient;
  const bool there = o.epilogue == kPlain || o.epilogue == kBias || without_bias == kRelu || without_bias == kGelu ||
                     gradient || matrix;
  if (!there || (gradient && a.type == kReal32)) return kNotSupported;
  if (gradient || (o.epilogue & kBias) != 0) {
    if (o.vector_type != -1 && o.vector_type != d.type) return kNotSupported;
    if (!o.vector || !multiple_of(o.vector, 16)) return kInvalidValue;
  }
  if (matrix && check_matrix(o, d) != kSuccess) return check_matrix(o, d);
  if (k == 1) return kNotSupported;
  const auto number = [](std::uint64_t size) { return static_cast<std::int64_t>(size); };
  out = {number(m), number(n), number(k), a.leading,        b.leading,        d.leading,
         ta,        tb,        tf32,      dtype_of(a.type), dtype_of(d.type), o.epilogue};
  return kSuccess;
}

bool same(const Multiplied& a, const Multiplied& b) {
  return a.m == b.m && a.n == b.n && a.k == b.k && a.lda == b.lda && a.ldb == b.ldb && a.ldd == b.ldd &&
         a.transpose_a == b.transpose_a && a.transpose_b == b.transpose_b && a.factors == b.factors &&
         a.result == b.result && a.epilogue == b.epilogue && a.tf32 == b.tf32;
}

int heuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference, int wanted,
              Heuristic* results, int* found) {
  *found = 0;
  if (!handle || *static_cast<int*>(handle) != kTheHandle) return kNotInitialized;
  if (wanted < 1) return kInvalidValue;
  Chosen chosen{};
  const auto layout = [](void* of) -> const Layout& { return *static_cast<const Layout*>(of); };
  const int status =
      check(*static_cast<const Operation*>(operation), layout(a), layout(b), layout(c), layout(d), chosen.problem);
  if (status != kSuccess) return status;
  const auto& p = *static_cast<const Preference*>(preference);
  chosen.alignment = 256;
  for (const std::uint32_t alignment : p.alignment) chosen.alignment = std::min(chosen.alignment, alignment);
  if (chosen.alignment < 16 || (chosen.alignment & (chosen.alignment - 1)) != 0) return kInvalidValue;
  chosen.in_place = (p.schemes & kReduceInPlace) != 0;
  constexpr std::uint8_t kParts = 4;
  const auto bytes = sizeof(float) * kParts * static_cast<std::uint64_t>(chosen.problem.m * chosen.problem.n);
  const bool split = chosen.problem.k >= 128 && bytes <= p.workspace && (p.schemes & (1u | kReduceInComputeType)) != 0;
  chosen.parts = split ? kParts : 1;
  results[0] = {};
  std::memcpy(&results[0].algorithm, &chosen, sizeof chosen);
  results[0].workspace_bytes = split ? bytes : 0;
  *found = 1;
  return kSuccess;
}

// The rows, or the columns, of op(matrix), one after another.
std::vector<float> gather(const void* data, const Multiplied& p, std::int64_t leading, bool along_columns,
                          std::int64_t lines, std::int64_t k) {
  std::vector<float> out(static_cast<std::size_t>(lines * k));
  for (std::int64_t line = 0; line < lines; ++line)
    for (std::int64_t i = 0; i < k; ++i) {
      const float x = load(data, p.factors, along_columns ? line * leading + i : i * leading + line);
      out[static_cast<std::size_t>(line * k + i)] = p.tf32 ? cut_to_tf32(x) : x;
    }
  return out;
}

// What an epilogue reads and writes besides D.
struct Beside {
  void *vector, *matrix;
};

float finished(const Multiplied& p, const Beside& beside, std::int64_t row, std::int64_t column, float sum) {
  constexpr float kRoot = 0.7978845608028654f, kCubic = 0.044715f;
  const std::int64_t at = column * p.ldd + row;
  if ((p.epilogue & kBias) != 0) sum += load(beside.vector, p.result, row);
  if ((p.epilogue & kRelu) != 0) return sum < 0.0f ? 0.0f : sum;
  if ((p.epilogue & kGelu) != 0) {
    if ((p.epilogue & kAuxiliary) != 0) store(beside.matrix, p.result, at, sum);
    return 0.5f * sum * (1.0f + std::tanh(kRoot * (sum + kCubic * sum * sum * sum)));
  }
  if (p.epilogue == kGeluGradient) {
    const float x = load(beside.matrix, p.result, at), tanh = std::tanh(kRoot * (x + kCubic * x * x * x));
    return sum * (0.5f * (1.0f + tanh) + 0.5f * x * (1.0f - tanh * tanh) * kRoot * (1.0f + 3.0f * kCubic * x * x));
  }
  return sum;
}

void multiply(const Chosen& chosen, const void* a, const void* b, void* d, const Beside& beside, float* parts) {
  const Multiplied& p = chosen.problem;
  const std::vector<float> rows = gather(a, p, p.lda, p.transpose_a, p.m, p.k);
  const std::vector<float> columns = gather(b, p, p.ldb, !p.transpose_b, p.n, p.k);
  static std::atomic<bool> backwards = false;
  const bool turned = chosen.in_place && backwards.exchange(!backwards);
  for (std::int64_t j = 0; j < p.n; ++j)
    for (std::int64_t i = 0; i < p.m; ++i) {
      float whole = 0.0f;
      for (int part = 0; part < chosen.parts; ++part) {
        const int at = turned ? chosen.parts - 1 - part : part;
        float sum = 0.0f;
        for (std::int64_t l = p.k * at / chosen.parts; l < p.k * (at + 1) / chosen.parts; ++l)
          sum += rows[static_cast<std::size_t>(i * p.k + l)] * columns[static_cast<std::size_t>(j * p.k + l)];
        if (chosen.parts > 1) parts[(at * p.n + j) * p.m + i] = sum;
        whole += sum;
      }
      store(d, p.result, j * p.ldd + i, finished(p, beside, i, j, whole));
    }
  if (p.epilogue != kBiasGradientB) return;
  for (std::int64_t j = 0; j < p.n; ++j) {
    float sum = 0.0f;
    for (std::int64_t l = 0; l < p.k; ++l) sum += columns[static_cast<std::size_t>(j * p.k + l)];
    store(beside.vector, p.result, j, sum);
  }
}

int matmul(void* handle, void* operation, const void* alpha, const void* a, void* a_layout, const void* b,
           void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
           const Algorithm* algorithm, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (!handle || *static_cast<int*>(handle) != kTheHandle) return kNotInitialized;
  const auto layout = [](void* of) -> const Layout& { return *static_cast<const Layout*>(of); };
  const auto& o = *static_cast<const Operation*>(operation);
  Multiplied problem{};
  const int status = check(o, layout(a_layout), layout(b_layout), layout(c_layout), layout(d_layout), problem);
  if (status != kSuccess) return status;
  Chosen chosen{};
  std::memcpy(&chosen, algorithm, sizeof chosen);
  const std::size_t needed =
      chosen.parts > 1 ? sizeof(float) * chosen.parts * static_cast<std::size_t>(problem.m * problem.n) : 0;
  if (!same(problem, chosen.problem) || workspace_bytes < needed || c != d) return kInvalidValue;
  if (*static_cast<const float*>(alpha) != 1.0f || *static_cast<const float*>(beta) != 0.0f) return kNotSupported;
  for (const void* pointer : {a, b, static_cast<const void*>(d)})
    if (!pointer || !multiple_of(pointer, chosen.alignment)) return kInvalidValue;
  if (!multiple_of(workspace, 256)) return kInvalidValue;
  if (wanted_to_fail("cublasLtMatmul")) return kExecutionFailed;
  const auto work = [chosen, a, b, d, beside = Beside{o.vector, o.matrix}, workspace] {
    multiply(chosen, a, b, d, beside, static_cast<float*>(workspace));
  };
  return launch_on(stream, work) ? kSuccess : kExecutionFailed;
}

}  // namespace

std::span<const Function> cublas_lt_functions() {
  static const Function all[] = {
      exported("cublasLtGetVersion", &Api::get_version, get_version),
      exported("cublasLtGetStatusString", &Api::get_status_string, get_status_string),
      exported("cublasLtCreate", &Api::create, create),
      exported("cublasLtMatmulDescCreate", &Api::matmul_desc_create, matmul_desc_create),
      exported("cublasLtMatmulDescDestroy", &Api::matmul_desc_destroy, matmul_desc_destroy),
      exported("cublasLtMatmulDescSetAttribute", &Api::matmul_desc_set, matmul_desc_set),
      exported("cublasLtMatrixLayoutCreate", &Api::layout_create, layout_create),
      exported("cublasLtMatrixLayoutDestroy", &Api::layout_destroy, layout_destroy),
      exported("cublasLtMatmulPreferenceCreate", &Api::preference_create, preference_create),
      exported("cublasLtMatmulPreferenceDestroy", &Api::preference_destroy, preference_destroy),
      exported("cublasLtMatmulPreferenceSetAttribute", &Api::preference_set, preference_set),
      exported("cublasLtMatmulAlgoGetHeuristic", &Api::heuristic, heuristic),
      exported("cublasLtMatmul", &Api::matmul, matmul),
  };
  return all;
}

}  // namespace mlx::emulation
