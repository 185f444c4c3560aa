// The reference backend's rows of the kernel table: one for every operation that has a kernel.
#include "kernels/backend_row.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels {

std::vector<Kernel> ref_kernels() {
  return {
#define MLX_OP(op, name, family, ...) {Op::op, ref::prepare_##family},
#define MLX_VIEW(...)
#define MLX_COLLECTIVE(...)
#include "kernels/op_list.h"
  };
}

}  // namespace mlx::kernels
