// cuBLASLt: declarations of the part of its API that is used, so that mlx builds without its headers, and the planning
// of products. Values and signatures are those of the cuBLAS Library User Guide, "Using the cuBLASLt API" (versions 12
// and 13); library_check.cu compares them with the real header if there is one. Used by library_linear.cu.
#pragma once

#include <memory>

#include "kernels/cuda/library.h"

namespace mlx::kernels::cuda::cublas_lt {

inline constexpr int kSuccess = 0;                                       // cublasStatus_t
inline constexpr int kReal32 = 0, kReal16 = 2, kReal16B = 14;            // cudaDataType_t
inline constexpr int kCompute32 = 68, kComputeTF32 = 77;                 // cublasComputeType_t
inline constexpr int kKeep = 0, kTranspose = 1;                          // cublasOperation_t
inline constexpr unsigned kReduceInPlace = 1, kReduceInComputeType = 2;  // cublasLtReductionScheme_t
// cublasLtEpilogue_t. kGelu is the tanh form; kBiasGradientB sums each column of op(B) over k.
inline constexpr unsigned kPlain = 1, kRelu = 2, kBias = 4, kGelu = 32, kBiasGradientB = 512;
// With a matrix beside D, of the same layout: kGelu writes the pre-activation to it, kGeluGradient reads it.
inline constexpr unsigned kAuxiliary = 128, kGeluGradient = 64 | kAuxiliary;
// cublasLtMatmulDescAttributes_t, with the type of each value
inline constexpr int kTransposeA = 3, kTransposeB = 4;  // int32_t
inline constexpr int kEpilogue = 7;                     // uint32_t
inline constexpr int kBiasPointer = 8;                  // pointer
inline constexpr int kBiasType = 26;                    // int32_t
inline constexpr int kAuxPointer = 11;                  // pointer, at a multiple of 16
inline constexpr int kAuxLeading = 12;                  // int64_t, of GELU a multiple of 8
inline constexpr int kAuxType = 22;                     // int32_t
// cublasLtMatmulPreferenceAttributes_t
inline constexpr int kMaxWorkspace = 1;                                                   // uint64_t
inline constexpr int kReductionSchemes = 3;                                               // uint32_t, a mask
inline constexpr int kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;  // uint32_t, bytes

struct Algorithm {  // cublasLtMatmulAlgo_t
  std::uint64_t data[8];
};
struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;  // cublasStatus_t
  float waves;
  int reserved[4];
};

// The library's functions by name. Handles and descriptors are opaque pointers.
struct Api {
  std::size_t (*get_version)();                                         // cublasLtGetVersion
  const char* (*get_status_string)(int status);                         // cublasLtGetStatusString
  int (*create)(void** handle);                                         // cublasLtCreate
  int (*matmul_desc_create)(void** operation, int compute, int scale);  // cublasLtMatmulDescCreate
  int (*matmul_desc_destroy)(void* operation);                          // cublasLtMatmulDescDestroy
  int (*matmul_desc_set)(void* operation, int attribute, const void* value, std::size_t bytes);
  // cublasLtMatrixLayoutCreate: column-major; `leading` elements between columns
  int (*layout_create)(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
  int (*layout_destroy)(void* layout);
  int (*preference_create)(void** preference);
  int (*preference_destroy)(void* preference);
  int (*preference_set)(void* preference, int attribute, const void* value, std::size_t bytes);
  int (*heuristic)(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   Heuristic* results, int* found);  // cublasLtMatmulAlgoGetHeuristic
  // cublasLtMatmul: D = alpha · op(A) · op(B) + beta · C
  int (*matmul)(void* handle, void* operation, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const Algorithm* algorithm, void* workspace, std::size_t workspace_bytes, cudaStream_t stream);
};
// Null if the library is missing. Opened once.
const Api* api();

// D[m,n] = op(A) · op(B), all column-major and dense. A is [m,k], or [k,m] if it is transposed; B likewise. A row-major
// [r,c] is a column-major [c,r].
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType factors = DType::kF32, result = DType::kF32;
  bool tf32 = false;  // f32 factors may be rounded to tf32
  // With kBias: a vector of m. With kBiasGradientB: a vector of n. With kAuxiliary: a matrix like D. All have the
  // result's type.
  unsigned epilogue = kPlain;
};

// A product with the algorithm that the library chose for it. Each run changes its descriptors, so one thread uses it
// at a time.
struct Matmul {
  void *operation = nullptr, *a = nullptr, *b = nullptr, *d = nullptr;
  Algorithm algorithm{};
  std::size_t workspace_bytes = 0;                  // at a multiple of kWorkspaceAlignment
  bool takes_vector = false, takes_matrix = false;  // the epilogue reads or writes one

  Matmul() = default;
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul();
};

// Null if the library is missing or declines. Sums are in f32. Split sums are added in a separate step, from f32: never
// in the result's type, and never in the order in which blocks finish.
std::unique_ptr<Matmul> plan_matmul(const Product& product);

// Operands of a product, at multiples of kTensorAlignment; `vector` and `matrix` if the epilogue has them.
struct Operands {
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  const void *vector = nullptr, *matrix = nullptr;  // matrix is written if the epilogue writes one
  void* workspace = nullptr;
};
// Launches the product on args.stream. An error is kept for Device::wait, with the operation's name.
void run_matmul(const char* operation, const Args& args, const Matmul& plan, const Operands& on);

}  // namespace mlx::kernels::cuda::cublas_lt
