// The problems of linear layers with weights in groups and in blocks (kernels/op_list.h, kLinearGroups, kLinearBlocks).
#include <fmt/format.h>

#include "cases.h"
#include "kernels/block_type.h"

namespace mlx::kernels::test {
namespace {

// Rows of blocks with random integers and parts, and scales that make weights of about 1.
void add_blocks(const BlockType& type, std::int64_t count, std::uint64_t seed, Tensor& to) {
  const Tensor bytes = integers(DType::kU8, {count, type.bytes}, 0, 255, seed);
  const Tensor scales = uniform({count, 2}, 0.0f, 1e-3f, seed + 1);
  std::vector<char> out = bytes.bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t* const block = reinterpret_cast<std::uint8_t*>(out.data()) + i * type.bytes;
    UnpackedBlock unpacked;
    unpack_block(type, block, unpacked);
    unpacked.scale = to_f16(scales.data<float>()[2 * i] - 2e-4f),
    unpacked.low = to_f16(scales.data<float>()[2 * i + 1]);
    pack_block(type, unpacked, block);
  }
  to.bytes.insert(to.bytes.end(), out.begin(), out.end());
  to.shape.dims[0] = static_cast<std::int64_t>(to.bytes.size());
}

}  // namespace

void in_blocks(Cases& cases) {
  struct Run {
    std::int64_t type, rows;
  };
  struct Sizes {
    std::int64_t rows, k;
    std::vector<Run> runs;
  };
  for (const Sizes& z : {Sizes{0, 256, {{kQ4K, 3}}}, Sizes{1, 256, {{kQ2K, 1}}}, Sizes{1, 512, {{kQ3K, 17}}},
                         Sizes{1, 1024, {{kQ4K, 100}}}, Sizes{2, 768, {{kQ5K, 16}}}, Sizes{3, 256, {{kQ6K, 31}}},
                         Sizes{8, 512, {{kQ4K, 33}, {kQ6K, 15}}}, Sizes{19, 512, {{kQ2K, 5}, {kQ3K, 16}, {kQ5K, 40}}},
                         Sizes{1, 32, {{kQ4_0, 1}}}, Sizes{1, 96, {{kQ4_1, 17}}}, Sizes{3, 992, {{kQ5_0, 33}}},
                         Sizes{9, 288, {{kQ5_1, 16}}}, Sizes{2, 64, {{kQ8_0, 40}}}, Sizes{6, 1056, {{kQ8_0, 70}}},
                         Sizes{20, 96, {{kQ8_0, 5}, {kQ4_0, 16}, {kQ4_1, 20}, {kQ5_0, 3}, {kQ5_1, 30}}},
                         Sizes{12, 512, {{kQ5_0, 20}, {kQ4K, 16}, {kQ8_0, 31}}},
                         Sizes{5, 256, {{kQ2K, 4}, {kQ3K, 1}, {kQ4K, 2}, {kQ5K, 3}, {kQ6K, 20}}}}) {
    Tensor w = zeros(DType::kU8, {0});
    Attrs attrs;
    std::string name = fmt::format("{}x{}", z.rows, z.k);
    std::int64_t n = 0;
    for (const Run& run : z.runs) {
      const BlockType& type = *find_block_type(run.type);
      add_blocks(type, run.rows * z.k / type.weights, static_cast<std::uint64_t>(3 + run.type), w);
      attrs.blocks.at[static_cast<std::size_t>(attrs.blocks.count++)] = run.type;
      attrs.block_rows.at[static_cast<std::size_t>(attrs.block_rows.count++)] = run.rows;
      name += fmt::format(", {} {}", run.rows, type.name);
      n += run.rows;
    }
    const Tensor x = uniform({z.rows, z.k}, -3.0f, 3.0f, 1);
    const std::vector<Shape> y{f32({z.rows, n})};
    cases.push_back({name, Op::kLinearBlocks, attrs, {x, w}, y, {}, {}});
    cases.push_back({name + ", bias", Op::kLinearBlocks, attrs, {x, w, random({n}, 5)}, y, {}, {}});
    cases.push_back({name + ", odd", Op::kLinearBlocks, attrs, {odd(x), w}, y, {}, {}});
    cases.push_back(
        {name + ", tiny", Op::kLinearBlocks, attrs, {uniform({z.rows, z.k}, -1e-38f, 1e-38f, 7), w}, y, {}, {}});
    if (z.runs.size() > 1) continue;
    const Tensor ids = integers(DType::kS32, {z.rows, 2}, -1, static_cast<int>(n), 6);
    cases.push_back({name + ", embedding", Op::kEmbeddingBlocks, attrs, {ids, w}, {f32({z.rows, 2, z.k})}, {}, {}});
  }
}

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
