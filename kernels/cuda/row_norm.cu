// Norms over the last dim on CUDA: layer norm (Ba, Kiros & Hinton 2016), RMS norm (Zhang & Sennrich 2019), of x or of
// the sum of x and a residual, and their gradients.
//
// They are memory-bound, so each element is read once and written once: a team, which is a warp or a block, holds a row
// in registers (a tile of its elements) and passes over it several times. Only rows wider than any tile are read again.
// The backward pass also computes the sums down the columns. A block has a share of the rows, determined by the number
// of rows alone, and stores the sums of its rows for each column; a second launch adds the shares.
#include "kernels/cuda/pack.h"

namespace mlx::kernels::cuda {
namespace {

// The part of a row that one of kTeam threads holds: kHeld elements in vectors of kVector, which are kTeam vectors
// apart. If kVector is 4 the row's width is a multiple of it. `left`: the number of elements in the row from the tile's
// first on; elements beyond the row are zero.
template <int kOfTeam, int kHeldEach, int kOfVector>
struct Tile {
  static constexpr int kTeam = kOfTeam, kHeld = kHeldEach, kVector = kOfVector;
  static constexpr int kElements = kTeam * kHeld;
  float at[kHeld];

  // Calls body(h, i) for each vector of this thread: at[h …] are the tile's elements i ….
  template <typename Body>
  static __device__ void each_vector(int left, Body body) {
    MLX_UNROLL for (int v = 0; v < kHeld / kVector; ++v) {
      const int i = (v * kTeam + static_cast<int>(threadIdx.x) % kTeam) * kVector;
      if (i < left) body(v * kVector, i);
    }
  }
  // Calls body(h, i) for each element.
  template <typename Body>
  static __device__ void each(int left, Body body) {
    each_vector(left, [&](int h, int i) { MLX_UNROLL for (int e = 0; e < kVector; ++e) body(h + e, i + e); });
  }

  template <typename T>
  __device__ void load_as(const T* from, int left) {
    MLX_UNROLL for (int h = 0; h < kHeld; ++h) at[h] = 0.0f;
    each_vector(left, [&](int h, int i) { load_pack<kVector>(from + i, at + h); });
  }
  __device__ void load(const Reals& from, std::int64_t first, int left) {
    if (from.type == DType::kBF16) return load_as(static_cast<const BF16*>(from.data) + first, left);
    if (from.type == DType::kF16) return load_as(static_cast<const F16*>(from.data) + first, left);
    load_as(static_cast<const float*>(from.data) + first, left);
  }
  template <typename T>
  __device__ void store_as(T* to, int left) const {
    each_vector(left, [&](int h, int i) { store_pack<kVector>(at + h, to + i); });
  }
  __device__ void store(const RealsOut& to, std::int64_t first, int left) const {
    if (to.type == DType::kBF16) return store_as(static_cast<BF16*>(to.data) + first, left);
    if (to.type == DType::kF16) return store_as(static_cast<F16*>(to.data) + first, left);
    store_as(static_cast<float*>(to.data) + first, left);
  }
};

// Calls body(first, left) for each tile of a row. There is one tile, except for the widest rows, which blocks take.
template <typename Tile, typename Body>
__device__ void each_tile(std::int64_t width, Body body) {
  if constexpr (Tile::kTeam == kWarp) {
    body(std::int64_t{0}, static_cast<int>(width));
  } else {
    MLX_NO_UNROLL for (std::int64_t first = 0; first < width; first += Tile::kElements)
        body(first, static_cast<int>(width - first < Tile::kElements ? width - first : Tile::kElements));
  }
}
template <typename Tile>
__device__ bool is_wide(std::int64_t width) {
  return Tile::kTeam > kWarp && width > Tile::kElements;
}

// The sum over the team's threads, in each of them. `shared` is for blocks.
template <typename Tile>
__device__ float team_sum(float value, float* shared) {
  if constexpr (Tile::kTeam == kWarp) return warp_sum(value);
  return block_sum(value, shared);
}

struct NormForward {
  std::int64_t rows, width;
  const float *x, *gamma, *beta;
  Reals residual;  // null if there is none; then sum is null too
  float* sum;
  RealsOut y;
  float *means, *rstds;  // null if not wanted
  float epsilon;
};

// The tile to normalise. With a residual it is the sum, which is also stored.
template <typename Tile>
__device__ Tile first_of(const NormForward& n, std::int64_t first, int left) {
  Tile x;
  x.load_as(n.x + first, left);
  if (n.residual.data == nullptr) return x;
  Tile residual;
  residual.load(n.residual, first, left);
  MLX_UNROLL for (int h = 0; h < Tile::kHeld; ++h) x.at[h] += residual.at[h];
  x.store_as(n.sum + first, left);
  return x;
}

// Layer norm if kCentred, else RMS norm.
template <bool kCentred, typename Tile>
__global__ void __launch_bounds__(kThreads) norm_kernel(NormForward n) {
  __shared__ float shared[kThreads / kWarp];
  const std::int64_t r = std::int64_t{blockIdx.x} * (kThreads / Tile::kTeam) + threadIdx.x / Tile::kTeam;
  if (r >= n.rows) return;
  const std::int64_t row = r * n.width;
  const float* normed = n.sum != nullptr ? n.sum : n.x;
  const bool wide = is_wide<Tile>(n.width);
  const auto count = static_cast<float>(n.width);
  Tile x;
  float total = 0.0f, squares = 0.0f;
  each_tile<Tile>(n.width, [&](std::int64_t first, int left) {
    x = first_of<Tile>(n, row + first, left);
    MLX_UNROLL for (int h = 0; h < Tile::kHeld; ++h) {
      if constexpr (kCentred)
        total += x.at[h];
      else
        squares += x.at[h] * x.at[h];
    }
  });
  float mean = 0.0f;
  if constexpr (kCentred) {
    mean = team_sum<Tile>(total, shared) / count;
    each_tile<Tile>(n.width, [&](std::int64_t first, int left) {
      if (wide) x.load_as(normed + row + first, left);
      Tile::each(left, [&](int h, int) { squares += (x.at[h] - mean) * (x.at[h] - mean); });
    });
  }
  const float rstd = 1.0f / sqrtf(team_sum<Tile>(squares, shared) / count + n.epsilon);
  each_tile<Tile>(n.width, [&](std::int64_t first, int left) {
    if (wide) x.load_as(normed + row + first, left);
    Tile y;
    Tile::each_vector(left, [&](int h, int i) {
      using Vector = Pack<float, Tile::kVector>;
      const Vector gamma = *reinterpret_cast<const Vector*>(n.gamma + first + i);
      Vector beta{};
      if constexpr (kCentred) beta = *reinterpret_cast<const Vector*>(n.beta + first + i);
      MLX_UNROLL for (int e = 0; e < Tile::kVector; ++e) {
        const float scaled = (x.at[h + e] - mean) * rstd * gamma.at[e];
        y.at[h + e] = kCentred ? scaled + beta.at[e] : scaled;
      }
    });
    y.store(n.y, row + first, left);
  });
  if (threadIdx.x % Tile::kTeam == 0 && n.means != nullptr) n.means[r] = mean;
  if (threadIdx.x % Tile::kTeam == 0 && n.rstds != nullptr) n.rstds[r] = rstd;
}

struct NormBackward {
  std::int64_t rows, width;
  const float* x;
  Reals dy;
  const float *gamma, *means, *rstds, *dsum;  // no means for RMS norm; no dsum if nothing is added
  float* dx;
  float* dgamma_parts;  // [parts, width], and for layer norm as many of dbeta
  float* dbeta_parts;
};

// The sums of the rows of a thread's team, for the columns that the thread holds.
template <bool kCentred, typename Tile>
struct ColumnSums {
  float dgamma[Tile::kHeld] = {};
  float dbeta[kCentred ? Tile::kHeld : 1] = {};
};

// Stores a block's sums down the columns, its teams' sums added in order.
template <bool kCentred, typename Tile>
__device__ void store_columns(const NormBackward& n, const ColumnSums<kCentred, Tile>& own) {
  float* dgamma = n.dgamma_parts + blockIdx.x * n.width;
  float* dbeta = n.dbeta_parts + blockIdx.x * n.width;
  const int width = static_cast<int>(n.width);
  if constexpr (Tile::kTeam > kWarp) {
    Tile::each(width, [&](int h, int i) {
      dgamma[i] = own.dgamma[h];
      if constexpr (kCentred) dbeta[i] = own.dbeta[h];
    });
  } else {
    __shared__ float sums[kCentred ? 2 : 1][Tile::kElements];
    MLX_NO_UNROLL for (int team = 0; team < kThreads / kWarp; ++team) {
      if (static_cast<int>(threadIdx.x) / kWarp == team)
        Tile::each(width, [&](int h, int i) {
          sums[0][i] = team == 0 ? own.dgamma[h] : sums[0][i] + own.dgamma[h];
          if constexpr (kCentred) sums[1][i] = team == 0 ? own.dbeta[h] : sums[1][i] + own.dbeta[h];
        });
      __syncthreads();
    }
    for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
      dgamma[i] = sums[0][i];
      if constexpr (kCentred) dbeta[i] = sums[1][i];
    }
  }
}

// With n the normalised row and g = dy·gamma: dx = rstd (g - n mean(g n)), for layer norm also - rstd mean(g). A row
// adds dy·n and dy to the sums down the columns.
template <bool kCentred, typename Tile>
__global__ void __launch_bounds__(kThreads, 1) norm_backward_kernel(NormBackward n) {
  __shared__ float shared[kThreads / kWarp];
  constexpr int kTeams = kThreads / Tile::kTeam;
  const std::int64_t begin = n.rows * blockIdx.x / gridDim.x, end = n.rows * (blockIdx.x + 1) / gridDim.x;
  const bool wide = is_wide<Tile>(n.width);
  const auto count = static_cast<float>(n.width);
  float* dgamma = n.dgamma_parts + blockIdx.x * n.width;
  float* dbeta = n.dbeta_parts + blockIdx.x * n.width;
  ColumnSums<kCentred, Tile> columns;
  // Registers cannot hold the columns of wide rows, so each thread adds to its own columns in memory.
  if (wide)
    for (std::int64_t i = threadIdx.x; i < n.width; i += kThreads) {
      dgamma[i] = 0.0f;
      if constexpr (kCentred) dbeta[i] = 0.0f;
    }
  if (wide) __syncthreads();
  Tile x, dy;  // x: normalised
  MLX_NO_UNROLL for (std::int64_t r = begin + threadIdx.x / Tile::kTeam; r < end; r += kTeams) {
    const std::int64_t row = r * n.width;
    const float mean = kCentred ? n.means[r] : 0.0f, rstd = n.rstds[r];
    const auto load = [&](std::int64_t first, int left) {
      x.load_as(n.x + row + first, left);
      dy.load(n.dy, row + first, left);
      MLX_UNROLL for (int h = 0; h < Tile::kHeld; ++h) x.at[h] = (x.at[h] - mean) * rstd;
    };
    float plain = 0.0f, weighted = 0.0f;
    each_tile<Tile>(n.width, [&](std::int64_t first, int left) {
      load(first, left);
      Tile::each(left, [&](int h, int i) {
        const float g = dy.at[h] * n.gamma[first + i];
        plain += g, weighted += g * x.at[h];
        float& of_gamma = wide ? dgamma[first + i] : columns.dgamma[h];
        of_gamma += dy.at[h] * x.at[h];
        if constexpr (kCentred) {
          float& of_beta = wide ? dbeta[first + i] : columns.dbeta[h];
          of_beta += dy.at[h];
        }
      });
    });
    plain = kCentred ? team_sum<Tile>(plain, shared) / count : 0.0f;
    weighted = team_sum<Tile>(weighted, shared) / count;
    each_tile<Tile>(n.width, [&](std::int64_t first, int left) {
      if (wide) load(first, left);
      Tile::each_vector(left, [&](int h, int i) {
        using Vector = Pack<float, Tile::kVector>;
        const Vector gamma = *reinterpret_cast<const Vector*>(n.gamma + first + i);
        Vector dsum{}, dx;
        if (n.dsum != nullptr) dsum = *reinterpret_cast<const Vector*>(n.dsum + row + first + i);
        MLX_UNROLL for (int e = 0; e < Tile::kVector; ++e) {
          dx.at[e] = rstd * (dy.at[h + e] * gamma.at[e] - plain - x.at[h + e] * weighted);
          // Rounded before the addition, as if dsum were added by a separate operation.
          if (n.dsum != nullptr) dx.at[e] = __fadd_rn(dx.at[e], dsum.at[e]);
        }
        *reinterpret_cast<Vector*>(n.dx + row + first + i) = dx;
      });
    });
  }
  if (!wide) store_columns<kCentred, Tile>(n, columns);
}

// The number of shares of the rows, of about eight rows or more each.
constexpr std::int64_t parts_of_rows(std::int64_t rows) {
  return std::clamp<std::int64_t>(divide_up(rows, 8), 1, 512);
}

// out[i] = the sum of [parts, width] down column i. A block takes kColumns columns; each of kLanes threads takes every
// kLanes-th part.
constexpr int kColumns = 8, kLanes = kThreads / kColumns;
__global__ void add_parts_kernel(std::int64_t parts, std::int64_t width, const float* from, float* out) {
  __shared__ double shared[kThreads];
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + threadIdx.x % kColumns;
  double sum = 0.0;
  for (std::int64_t p = threadIdx.x / kColumns; column < width && p < parts; p += kLanes)
    sum += from[p * width + column];
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kColumns || column >= width) return;
  for (int lane = 1; lane < kLanes; ++lane) sum += shared[lane * kColumns + threadIdx.x];
  out[column] = static_cast<float>(sum);
}

// Calls launch_as(tile) with the kind of tile for rows of this width.
template <typename Launch>
void with_tile(std::int64_t width, Launch launch_as) {
  if (width % 4 != 0) return width <= 512 ? launch_as(Tile<kWarp, 16, 1>{}) : launch_as(Tile<kThreads, 16, 1>{});
  if (width <= 256) return launch_as(Tile<kWarp, 8, 4>{});
  if (width <= 512) return launch_as(Tile<kWarp, 16, 4>{});
  if (width <= 768) return launch_as(Tile<kWarp, 24, 4>{});
  if (width <= 1024) return launch_as(Tile<kWarp, 32, 4>{});
  if (width <= 2048) return launch_as(Tile<kThreads, 8, 4>{});
  if (width <= 4096) return launch_as(Tile<kThreads, 16, 4>{});
  launch_as(Tile<kThreads, 32, 4>{});
}

template <bool kCentred>
void run_norm(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  constexpr int kResidual = kCentred ? 3 : 2,
                kRstd = kCentred ? 2 : 1;  // the output `sum` has the residual's index
  NormForward n{};
  n.rows = s.g.rows, n.width = s.g.width;
  n.x = f32_in(&s, args, 0), n.gamma = f32_in(&s, args, 1), n.beta = kCentred ? f32_in(&s, args, 2) : nullptr;
  n.residual = reals_in(s, args, kResidual, s.g.residual_type);
  n.sum = f32_out(&s, args, kResidual);
  n.y = reals_out(s, args, 0, s.g.y_type);
  n.means = kCentred ? f32_out(&s, args, 1) : nullptr, n.rstds = f32_out(&s, args, kRstd);
  n.epsilon = s.attrs.epsilon;
  with_tile(n.width, [&]<typename Tile>(Tile) {
    launch(args, norm_kernel<kCentred, Tile>, blocks(divide_up(n.rows, kThreads / Tile::kTeam)), kThreads, n);
  });
}

template <bool kCentred>
void run_norm_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  constexpr int kRstd = kCentred ? 4 : 3;
  const std::int64_t parts = parts_of_rows(s.g.rows);
  NormBackward n{};
  n.rows = s.g.rows, n.width = s.g.width;
  n.x = f32_in(&s, args, 0), n.gamma = f32_in(&s, args, 2);
  n.dy = reals_in(s, args, 1, s.g.dy_type);
  n.means = kCentred ? f32_in(&s, args, 3) : nullptr, n.rstds = f32_in(&s, args, kRstd);
  n.dsum = f32_in(&s, args, kRstd + 1);
  n.dx = f32_out(&s, args, 0);
  n.dgamma_parts = static_cast<float*>(args.workspace);
  n.dbeta_parts = n.dgamma_parts + parts * n.width;
  with_tile(n.width, [&]<typename Tile>(Tile) {
    launch(args, norm_backward_kernel<kCentred, Tile>, blocks(parts), kThreads, n);
  });
  const auto add_parts = [&](const float* from, float* out) {
    launch(args, add_parts_kernel, blocks(divide_up(n.width, kColumns)), kThreads, parts, n.width, from, out);
  };
  add_parts(n.dgamma_parts, f32_out(&s, args, 1));
  if constexpr (kCentred) add_parts(n.dbeta_parts, f32_out(&s, args, 2));
}

template <bool kCentred>
bool prepare_norm(const Problem& problem, Plan& plan, bool back) {
  const State* s = new_state(problem, plan, back ? run_norm_backward<kCentred> : run_norm<kCentred>, Takes::kHalf);
  if (!s) return false;
  const std::int64_t parts = parts_of_rows(s->g.rows) * (kCentred ? 2 : 1);
  if (back) plan.workspace_bytes = sizeof(float) * static_cast<std::size_t>(parts * s->g.width);
  return true;
}

}  // namespace

bool prepare_layer_norm(const Problem& problem, Plan& plan) {
  return prepare_norm<true>(problem, plan, problem.op == Op::kLayerNormBackward);
}
bool prepare_rms_norm(const Problem& problem, Plan& plan) {
  return prepare_norm<false>(problem, plan, problem.op == Op::kRmsNormBackward);
}

}  // namespace mlx::kernels::cuda
