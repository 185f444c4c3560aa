// Runs any row of the kernel table on a case and compares tensors. Shared by the tests of all kernels. Every tensor,
// the workspace and packed weights are between canaries; slices can run in reverse order; memory can be misaligned.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/backend_row.h"
#include "kernels/device.h"
#include "kernels/table.h"

namespace mlx::kernels::test {

// The CUDA kernels, and the device that they run on.
struct CudaTable {
  std::vector<Kernel> kernels;
  const Device& device;
};
// The kernels of kernels/cuda_emulation; throws if the module cannot be opened.
CudaTable emulated_cuda();

struct Tensor {
  Shape shape;
  std::vector<char> bytes;

  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  bool absent() const { return shape.rank < 0; }
};

Shape shape_of(DType dtype, std::vector<std::int64_t> dims);
inline Shape f32(std::vector<std::int64_t> dims) {
  return shape_of(DType::kF32, std::move(dims));
}
Tensor absent();
Tensor zeros(DType dtype, std::vector<std::int64_t> dims);
// Numbers from a fixed generator; `seed` makes tensors differ.
Tensor uniform(std::vector<std::int64_t> dims, float low, float high, std::uint64_t seed);
Tensor integers(DType dtype, std::vector<std::int64_t> dims, int low, int high, std::uint64_t seed);
Tensor scalar(float value);
Tensor stored(const Tensor& f32, DType dtype);  // in the given type: unchanged, or rounded to bf16 or f16

struct Case {
  std::string name;
  Op op{};
  Attrs attrs;
  std::vector<Tensor> inputs;
  std::vector<Shape> outputs;
  std::vector<std::pair<int, int>> shared;       // (input, output) pairs that are the same memory by contract
  std::vector<std::pair<int, int>> may_share{};  // pairs that may be
  bool constants = false;                        // inputs from 1 on are known when the plan is made
  std::uint64_t seed = 7, step = 3;
};

struct RunOptions {
  bool reverse = false;    // run the slices of each phase in reverse order
  std::size_t offset = 0;  // misalignment of tensors to 64 bytes, in bytes; a multiple of 4
  bool share = false;      // also share the pairs of may_share
  char fill = '\x55';      // initial bytes of outputs and workspace
};

// Prepares a row's plan for a case; false if the row does not serve it.
bool prepare_case(const Kernel& kernel, const Case& test, Prepared& prepared);
// Returns the outputs. On another device than the host, tensors and canaries are copied there and back. `damage`
// describes a write outside of a tensor ("output 1: before its first byte"), "" if there was none.
std::vector<Tensor> run_case(const Plan& plan, const Case& test, const RunOptions& options, std::string& damage,
                             const Device& device = host_device());

// Allowed difference: relative·|expected| + scaled·(root mean square of the tensor's expected values).
struct Tolerance {
  double relative = 0.0, scaled = 0.0;
};
// Of the kernels of that backend; the one table, with reasons.
Tolerance tolerance_of(const Case& test, std::size_t output, std::string_view backend);

// "" if equal within the tolerance, else the first difference. Bytes may differ by one step, s32 not at all. NaN and
// infinities match NaN and infinities.
std::string difference(const Tensor& expected, const Tensor& got, Tolerance tolerance);

std::vector<Case> all_cases();
void add_sequence_cases(std::vector<Case>& cases);  // those of cases_sequence.cpp; part of all_cases

}  // namespace mlx::kernels::test
