// Dropout on CUDA: an element is kept, scaled by 1 / (1 - rate), if its Philox number is at least the rate. With
// whole_example the elements of an example share one number, that of the example's index. Backward draws the same
// numbers again. The bits are the same as ref's.
#include "kernels/cuda/cuda.h"
#include "kernels/philox.h"

namespace mlx::kernels::cuda {

void run_dropout(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float* x = f32_in(&s, args, 0);
  float* y = f32_out(&s, args, 0);
  const float rate = s.attrs.rate, scale = 1.0f / (1.0f - rate);
  const std::int64_t count = s.g.count;
  const std::int64_t shared = s.attrs.whole_example && s.g.n > 0 ? count / s.g.n : 1;  // elements of one number
  const std::uint64_t stream = s.attrs.stream;
  const RandomKey* key = args.key;
  const auto kept = [=] __device__(std::int64_t i, std::uint32_t drawn) {
    y[i] = to_unit(drawn) >= rate ? x[i] * scale : 0.0f;
  };
  if (shared > 1) {
    each(args, count, [=] __device__(std::int64_t i) {
      kept(i, random_u32(key->seed, stream, key->step, static_cast<std::uint64_t>(i / shared)));
    });
    return;
  }
  each(args, divide_up(count, 4), [=] __device__(std::int64_t block) {
    const auto drawn = random_block(key->seed, stream, key->step, static_cast<std::uint64_t>(block));
    for (std::int64_t i = 4 * block; i < 4 * block + 4 && i < count; ++i)
      kept(i, drawn[static_cast<std::size_t>(i % 4)]);
  });
}

bool prepare_dropout(const Problem& problem, Plan& plan) {
  return new_state(problem, plan, run_dropout) != nullptr;
}

}  // namespace mlx::kernels::cuda
