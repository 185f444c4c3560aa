// Rows of operations, names of dtypes and backends. They occur in model.json, in errors and in reports, so they never
// change.
#include "kernels/kernel.h"

namespace mlx::kernels {
namespace {

// In the order of enum Op.
constexpr OpRow kRows[] = {
#define MLX_OP(op, name, family, required, most) {name, required, most, false, false, false},
#define MLX_PRIMITIVE(op, name, family, required, most) {name, required, most, true, false, false},
#define MLX_VIEW(op, name, family, required, most) {name, required, most, false, true, false},
#define MLX_COLLECTIVE(op, name, family, required, most) {name, required, most, false, false, true},
#include "kernels/op_list.h"
};

}  // namespace

const OpRow& row_of(Op op) {
  return kRows[static_cast<std::size_t>(op)];
}

const char* name_of(Op op) {
  return op < Op::kCount ? row_of(op).name : "unknown";
}

IntList int_list(std::initializer_list<std::int64_t> values) {
  IntList list;
  for (const std::int64_t value : values) list.at[static_cast<std::size_t>(list.count++)] = value;
  return list;
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

}  // namespace mlx::kernels
