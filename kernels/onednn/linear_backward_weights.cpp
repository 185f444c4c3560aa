// kLinearBackwardWeights: dw[n,k] = dyᵀ[n,rows] · x[rows,k] and db[n] = Σ dy. The longer side of dw is cut into slices,
// so each slice writes its own part of the plain layout and there are no partial sums. The columns of db are further
// slices of the same phase. oneDNN's matmul with transposed and strided operands reaches 108 of 118 GFLOP/s a core
// here.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/half.h"
#include "kernels/onednn/linear.h"
#include "kernels/onednn/quantized.h"
#include "kernels/onednn/sliced.h"

namespace mlx::kernels::onednn {
namespace {

using dnnl::memory;

constexpr int kMostSlices = 16;
constexpr std::int64_t kLeastWidth = 64;   // columns or rows of dw in a slice
constexpr std::int64_t kSumColumns = 128;  // columns of db in a slice

struct Slice {
  Call call;
  std::size_t dy = 0, x = 0, dw = 0, scratchpad = 0;  // offsets in bytes
  bool has_scratchpad = false;
};

struct BackwardWeights {
  std::vector<Slice> slices;
  std::int64_t rows = 0, n = 0;
  DType type = DType::kF32;  // of x and dy

  void run(const Args& args, int, int index) const {
    const auto products = static_cast<int>(slices.size());
    if (index >= products)
      return type == DType::kBF16 ? add_columns<BF16>(args, index - products)
                                  : add_columns<float>(args, index - products);
    const Slice& slice = slices[static_cast<std::size_t>(index)];
    const char* x = static_cast<const char*>(args.inputs[0]) + slice.x;
    const char* dy = static_cast<const char*>(args.inputs[1]) + slice.dy;
    const char* dw = static_cast<const char*>(args.outputs[0]) + slice.dw;
    if (slice.has_scratchpad)
      slice.call.run({dy, x, dw, static_cast<const char*>(args.workspace) + slice.scratchpad});
    else
      slice.call.run({dy, x, dw});
  }

  // Sums of at most 64 rows are added to the total, so the error grows with the number of such sums, not of rows.
  template <typename T>
  void add_columns(const Args& args, int part) const {
    const std::int64_t begin = part * kSumColumns, width = std::min(kSumColumns, n - begin);
    const T* dy = static_cast<const T*>(args.inputs[1]) + begin;
    float* db = static_cast<float*>(args.outputs[1]) + begin;
    std::array<float, kSumColumns> total{};
    for (std::int64_t row = 0; row < rows; row += 64) {
      std::array<float, kSumColumns> sum{};
      for (std::int64_t r = row; r < std::min(row + 64, rows); ++r) {
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) sum[c] += widen(dy[r * n + c]);
      }
      for (std::int64_t c = 0; c < width; ++c) total[c] += sum[c];
    }
    std::copy_n(total.begin(), width, db);
  }
};

bool prepare_linear_backward_weights(const Problem& problem, Plan& plan) {
  const Shape &x = problem.inputs[0], &dy = problem.inputs[1];
  if (!is_real(x.dtype) || dy.dtype != x.dtype || x.rank < 1 || dy.rank < 1) return false;
  const std::int64_t k = x.dims[x.rank - 1], n = dy.dims[dy.rank - 1];
  if (x.count() == 0 || n == 0) return false;
  const std::int64_t rows = x.count() / k;
  const bool over_k = k >= n;
  const Cut cuts = cut(over_k ? k : n, kMostSlices, kLeastWidth, 2.0 * static_cast<double>(rows * std::min(k, n)));

  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  auto state = std::make_unique<BackwardWeights>();
  state->rows = rows;
  state->n = n;
  state->type = x.dtype;
  const std::size_t element = x.dtype == DType::kBF16 ? sizeof(BF16) : sizeof(float);
  std::size_t workspace = 0;
  for (int i = 0; i < cuts.count; ++i) {
    const std::int64_t begin = cuts.begin(i), slice_n = over_k ? n : cuts.size(i), slice_k = over_k ? cuts.size(i) : k;
    const auto type = data_type(x.dtype);
    const Desc left({slice_n, rows}, type, Dims{1, n}), right({rows, slice_k}, type, Dims{k, 1}),
        dw({slice_n, slice_k}, memory::data_type::f32, Dims{k, 1});
    const dnnl::matmul::primitive_desc desc({left, right, dw}, user_scratchpad(), engine);
    if (std::string(desc.impl_info_str()).starts_with("ref")) return false;

    Slice slice;
    const Desc scratchpad = desc.scratchpad_desc();
    slice.has_scratchpad = scratchpad.get_size() > 0;
    slice.scratchpad = workspace;
    workspace += round_up(scratchpad.get_size());
    const Call::Slot a{DNNL_ARG_SRC, left}, b{DNNL_ARG_WEIGHTS, right}, c{DNNL_ARG_DST, dw};
    slice.call = slice.has_scratchpad ? Call(engine, dnnl::matmul(desc), {a, b, c, {DNNL_ARG_SCRATCHPAD, scratchpad}})
                                      : Call(engine, dnnl::matmul(desc), {a, b, c});
    slice.dy = static_cast<std::size_t>(over_k ? 0 : begin) * element;
    slice.x = static_cast<std::size_t>(over_k ? begin : 0) * element;
    slice.dw = static_cast<std::size_t>(over_k ? begin : begin * k) * sizeof(float);
    state->slices.push_back(std::move(slice));
  }

  plan.phases = 1;
  const bool has_db = problem.output_count > 1 && problem.outputs[1].rank >= 0;
  plan.slices[0] = cuts.count + (has_db ? static_cast<int>((n + kSumColumns - 1) / kSumColumns) : 0);
  plan.workspace_bytes = workspace;
  give(plan, std::move(state));
  return true;
}

}  // namespace

const Kernel kLinearBackwardWeightsKernel{Op::kLinearBackwardWeights, guarded<prepare_linear_backward_weights>};

}  // namespace mlx::kernels::onednn
