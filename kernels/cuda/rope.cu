// Rotary positions (Su et al. 2021) of the queries and keys of qkv on CUDA, and their gradient, the inverse rotation.
// The table of cosines and sines is copied to the device when a kernel is prepared.
#include "kernels/cuda/cuda.h"
#include "kernels/rope_table.h"

namespace mlx::kernels::cuda {

void run_rope(const void* state, const Args& args, int, int) {
  const auto* s = static_cast<const RopeState*>(state);
  const std::int64_t size = s->g.head, half = size / 2, turned = s->g.dim + s->g.kv_dim, width = s->g.width;
  const std::int64_t time = s->g.time, positions = s->positions;
  const float *x = f32_in(s, args, 0), *table = s->turns;
  const std::int32_t* first = s32_in(s, args, 1);
  float* y = f32_out(s, args, 0);
  each(args, s->g.count, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / width, column = i % width, in_head = column % size;
    if (column >= turned) {
      y[i] = x[i];
      return;
    }
    if (in_head >= half) return;  // the thread of the first half rotates the pair
    const std::int64_t at = (first ? first[row / time] : 0) + row % time;
    const float* turns = table + (at >= 0 && at < positions ? at : 0) * size;
    const float a = x[i], b = x[i + half], cosine = turns[in_head], sine = turns[half + in_head];
    y[i] = a * cosine - b * sine;
    y[i + half] = b * cosine + a * sine;
  });
}

bool prepare_rope(const Problem& problem, Plan& plan) {
  RopeState* s = new_rope_state(problem, plan, run_rope);
  if (!s) return false;
  const std::size_t bytes =
      sizeof(float) * static_cast<std::size_t>(std::max<std::int64_t>(1, s->positions) * s->g.head);
  void* on_device = nullptr;
  const bool copied = cudaMalloc(&on_device, bytes) == cudaSuccess &&
                      cudaMemcpy(on_device, s->turns, bytes, cudaMemcpyHostToDevice) == cudaSuccess;
  drop_turns(*s);
  s->turns = static_cast<const float*>(on_device);
  plan.destroy = [](void* owned) {
    auto* own = static_cast<RopeState*>(owned);
    cudaFree(const_cast<float*>(own->turns));
    delete own;
  };
  return copied;
}

}  // namespace mlx::kernels::cuda
