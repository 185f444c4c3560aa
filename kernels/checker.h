// Checks problems: shapes, ranks and dtypes of tensors; describes the first fault. Used by the families' checks:
// geometry.cpp, geometry_sequence.cpp, and for primitive operations the files of kernels/ref.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/geometry.h"

namespace mlx::kernels {

using Dims = std::vector<std::int64_t>;

inline constexpr std::initializer_list<DType> kFloat = {DType::kF32};
inline constexpr std::initializer_list<DType> kReal = {DType::kF32, DType::kBF16, DType::kF16};
inline constexpr std::initializer_list<DType> kRealOrBytes = {DType::kF32, DType::kBF16, DType::kF16, DType::kU8,
                                                              DType::kS8};
inline constexpr std::initializer_list<DType> kAny = {DType::kF32, DType::kBF16, DType::kF16, DType::kS32,
                                                      DType::kS8,  DType::kU8,   DType::kI64};
inline constexpr std::initializer_list<DType> kBytes = {DType::kU8, DType::kS8};
inline constexpr std::initializer_list<DType> kFloatOrBytes = {DType::kF32, DType::kU8, DType::kS8};

// Collects the first fault; later checks are skipped.
class Checker {
 public:
  explicit Checker(const Problem& problem) : problem_(problem) {}

  const std::string& wrong() const { return wrong_; }
  bool ok() const { return wrong_.empty(); }

  bool has_input(int i) const { return i < problem_.input_count && problem_.inputs[i].rank >= 0; }
  bool has_output(int i) const { return i < problem_.output_count && problem_.outputs[i].rank >= 0; }
  const Shape& input(int i) const { return problem_.inputs[i]; }
  const Shape& output(int i) const { return problem_.outputs[i]; }

  void require(bool condition, const char* what) {
    if (ok() && !condition) wrong_ = what;
  }
  // Requires a present tensor of at least `rank` dims, with an allowed dtype and sizes that cannot overflow.
  bool input_is(int i, int least_rank, std::initializer_list<DType> dtypes = kFloat) {
    return tensor_is("input", i, has_input(i) ? &input(i) : nullptr, least_rank, dtypes);
  }
  bool output_is(int i, int least_rank, std::initializer_list<DType> dtypes = kFloat) {
    return tensor_is("output", i, has_output(i) ? &output(i) : nullptr, least_rank, dtypes);
  }
  void input_equals(int i, const Dims& dims, DType dtype = DType::kF32) {
    if (input_is(i, 0, {dtype}) && dims_of(input(i)) != dims) wrong_ = fmt::format("input {} must be {}", i, dims);
  }
  void output_equals(int i, const Dims& dims, DType dtype = DType::kF32) {
    if (output_is(i, 0, {dtype}) && dims_of(output(i)) != dims) wrong_ = fmt::format("output {} must be {}", i, dims);
  }
  // Requires a tensor that is computed in f32 and may be stored in half precision.
  void input_stored(int i, const Dims& dims) {
    if (input_is(i, 0, kReal)) input_equals(i, dims, input(i).dtype);
  }
  void output_stored(int i, const Dims& dims) {
    if (output_is(i, 0, kReal)) output_equals(i, dims, output(i).dtype);
  }
  void optional_input(int i, const Dims& dims, DType dtype = DType::kF32) {
    if (has_input(i)) input_equals(i, dims, dtype);
  }
  void optional_output(int i, const Dims& dims, DType dtype = DType::kF32) {
    if (has_output(i)) output_equals(i, dims, dtype);
  }
  void outputs_like(int output, int input_index) {
    if (input_is(input_index, 0, {DType::kF32, DType::kU8, DType::kS8}))
      output_equals(output, dims_of(input(input_index)));
  }

  static Dims dims_of(const Shape& shape) { return {shape.dims.begin(), shape.dims.begin() + shape.rank}; }

 private:
  bool tensor_is(const char* side, int i, const Shape* shape, int least_rank, std::initializer_list<DType> dtypes) {
    if (!ok()) return false;
    if (!shape) {
      wrong_ = fmt::format("{} {} is missing", side, i);
    } else if (shape->rank < least_rank || shape->rank > kMaxRank) {
      wrong_ = fmt::format("{} {} needs at least {} dims", side, i, least_rank);
    } else if (!fits(*shape)) {
      wrong_ = fmt::format("{} {} has sizes that are negative or too large", side, i);
    } else {
      bool known = false;
      std::string wanted;
      for (const DType dtype : dtypes) {
        known = known || shape->dtype == dtype;
        wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", name_of(dtype));
      }
      if (!known) wrong_ = fmt::format("{} {} is {}, not {}", side, i, name_of(shape->dtype), wanted);
    }
    return ok();
  }
  static bool fits(const Shape& shape) {
    constexpr std::int64_t kMost = std::int64_t{1} << 48;  // bytes of any tensor stay far below overflow
    std::int64_t product = 1;
    for (int i = 0; i < shape.rank; ++i) {
      const std::int64_t dim = shape.dims[static_cast<std::size_t>(i)];
      if (dim < 0 || dim > kMost) return false;
      if (dim > 0 && product > kMost / dim) return false;
      product *= dim > 0 ? dim : 1;
    }
    return true;
  }

  const Problem& problem_;
  std::string wrong_;
};

inline std::int64_t last(const Shape& shape) {
  return shape.dims[static_cast<std::size_t>(shape.rank - 1)];
}
inline std::int64_t dim(const Shape& shape, int i) {
  return shape.dims[static_cast<std::size_t>(i)];
}
inline std::int64_t leading(const Shape& shape) {
  std::int64_t product = 1;
  for (int i = 0; i + 1 < shape.rank; ++i) product *= dim(shape, i);
  return product;
}
inline Dims with_last(const Shape& shape, std::int64_t width) {
  Dims dims = Checker::dims_of(shape);
  dims.back() = width;
  return dims;
}
inline Dims without_last(const Shape& shape) {
  Dims dims = Checker::dims_of(shape);
  dims.pop_back();
  return dims;
}

// One function for each family of operations: checks `problem` against op_list.h and fills in Geometry.
#define MLX_OP(op, name, family, ...) void check_##family(Checker& check, const Problem& problem, Geometry& g);
#define MLX_VIEW(...)
#define MLX_COLLECTIVE(...)
#include "kernels/op_list.h"

}  // namespace mlx::kernels
