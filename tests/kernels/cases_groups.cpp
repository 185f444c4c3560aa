// The problems of linear layers with weights in groups (kernels/op_list.h, kLinearGroups).
#include <fmt/format.h>

#include "cases.h"

namespace mlx::kernels::test {

void in_groups(Cases& cases) {
  struct Sizes {
    std::int64_t rows, k, n, group;
  };
  for (const Sizes& z :
       {Sizes{0, 32, 8, 32}, Sizes{1, 32, 1, 32}, Sizes{1, 64, 17, 32}, Sizes{1, 256, 200, 64}, Sizes{2, 96, 65, 96},
        Sizes{3, 128, 64, 32}, Sizes{5, 64, 15, 64}, Sizes{7, 512, 130, 128}, Sizes{12, 4096, 70, 4096},
        Sizes{4, 1056, 64, 32}, Sizes{6, 1056, 70, 32}, Sizes{16, 992, 130, 32}, Sizes{33, 320, 129, 32},
        Sizes{203, 992, 70, 32}, Sizes{100, 768, 64, 256}}) {
    const Tensor x = uniform({z.rows, z.k}, -3.0f, 3.0f, 1);
    const Tensor scales = stored(uniform({z.k / z.group, z.n}, -0.1f, 0.1f, 2), DType::kF16);
    const Tensor four = integers(DType::kU8, {z.n, z.k / 2}, 0, 255, 3);
    const Tensor eight = integers(DType::kS8, {z.n, z.k}, -128, 127, 4);
    for (const Tensor& w : {four, eight}) {
      const std::string name =
          fmt::format("{}x{} to {} in groups of {}, {}", z.rows, z.k, z.n, z.group, name_of(w.shape.dtype));
      const std::vector<Shape> y{f32({z.rows, z.n})};
      cases.push_back({name, Op::kLinearGroups, {}, {x, w, scales}, y, {}, {}});
      cases.push_back(
          {name, Op::kLinearGroupsBackwardData, {}, {random({z.rows, z.n}, 8), w, scales}, {x.shape}, {}, {}});
      cases.push_back({name + ", bias", Op::kLinearGroups, {}, {x, w, scales, random({z.n}, 5)}, y, {}, {}});
      cases.push_back({name + ", odd", Op::kLinearGroups, {}, {odd(x), w, scales}, y, {}, {}});
      cases.push_back(
          {name + ", large", Op::kLinearGroups, {}, {uniform({z.rows, z.k}, -3e38f, 3e38f, 6), w, scales}, y, {}, {}});
      cases.push_back(
          {name + ", tiny", Op::kLinearGroups, {}, {uniform({z.rows, z.k}, -1e-38f, 1e-38f, 7), w, scales}, y, {}, {}});
    }
  }
}

}  // namespace mlx::kernels::test
