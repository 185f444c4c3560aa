// Embedding and added positions on CUDA, with their gradients. An id or position outside the table reads zeros and has
// no gradient.
//
// The table's gradient uses no atomics. The block of the first position with an id adds, in order, the gradients of all
// positions with that id. Finding them takes count² / 2 comparisons, which stay in the cache, 32 to a vote: 16,384
// tokens need 4 million votes.
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

void run_embedding(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t dim = s.g.dim, rows = s.g.table;
  const std::int32_t* ids = s32_in(&s, args, 0);
  const float* table = f32_in(&s, args, 1);
  float* y = f32_out(&s, args, 0);
  each(args, s.g.count * dim, [=] __device__(std::int64_t i) {
    const std::int32_t id = ids[i / dim];
    y[i] = id >= 0 && id < rows ? table[id * dim + i % dim] : 0.0f;
  });
}

__global__ void embedding_backward_kernel(std::int64_t count, std::int64_t dim, std::int64_t rows,
                                          const std::int32_t* ids, const float* dy, float* table) {
  __shared__ unsigned named[kThreads / kWarp];  // bit i: position i of a warp's 32 has this block's id
  const std::int64_t own = blockIdx.x;
  const std::int32_t id = ids[own];
  if (id < 0 || id >= rows) return;
  for (std::int64_t from = 0; from < own; from += kThreads) {
    const std::int64_t i = from + threadIdx.x;
    if (__syncthreads_or(i < own && ids[i] == id)) return;  // an earlier block has this id
  }
  for (std::int64_t column = 0; column < dim; column += kThreads) {
    const std::int64_t d = column + threadIdx.x;
    float sum = 0.0f;
    for (std::int64_t from = own; from < count; from += kThreads) {
      const std::int64_t i = from + threadIdx.x;
      const unsigned votes = __ballot_sync(0xffffffffu, i < count && ids[i] == id);
      if (threadIdx.x % kWarp == 0) named[threadIdx.x / kWarp] = votes;
      __syncthreads();
      for (int warp = 0; d < dim && warp < kThreads / kWarp; ++warp)
        for (unsigned left = named[warp]; left != 0; left &= left - 1)  // from the lowest bit on
          sum += dy[(from + warp * kWarp + __ffs(static_cast<int>(left)) - 1) * dim + d];
      __syncthreads();
    }
    if (d < dim) table[id * dim + d] = sum;
  }
}

void run_embedding_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  float* table = f32_out(&s, args, 0);
  each(args, s.g.table * s.g.dim, [=] __device__(std::int64_t i) { table[i] = 0.0f; });
  launch(args, embedding_backward_kernel, blocks(s.g.count), kThreads, s.g.count, s.g.dim, s.g.table,
         s32_in(&s, args, 0), f32_in(&s, args, 1), table);
}

void run_add_positions(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t dim = s.g.dim, time = s.g.time, positions = s.g.table;
  const float *x = f32_in(&s, args, 0), *table = f32_in(&s, args, 1);
  const std::int32_t* first = s32_in(&s, args, 2);
  float* y = f32_out(&s, args, 0);
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / dim, at = (first ? first[row / time] : 0) + row % time;
    y[i] = x[i] + (at >= 0 && at < positions ? table[at * dim + i % dim] : 0.0f);
  });
}

void run_add_positions_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t dim = s.g.dim, time = s.g.time, batch = s.g.batch;
  const float* dy = f32_in(&s, args, 0);
  const std::int32_t* first = s32_in(&s, args, 1);
  float* table = f32_out(&s, args, 0);
  each(args, s.g.table * dim, [=] __device__(std::int64_t i) {
    float sum = 0.0f;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t t = i / dim - (first ? first[b] : 0);
      if (t >= 0 && t < time) sum += dy[(b * time + t) * dim + i % dim];
    }
    table[i] = sum;
  });
}

bool prepare_embedding(const Problem& problem, Plan& plan) {
  return new_state(problem, plan, problem.op == Op::kEmbedding ? run_embedding : run_embedding_backward) != nullptr;
}
bool prepare_positions(const Problem& problem, Plan& plan) {
  return new_state(problem, plan, problem.op == Op::kAddPositions ? run_add_positions : run_add_positions_backward) !=
         nullptr;
}

}  // namespace mlx::kernels::cuda
