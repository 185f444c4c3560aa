// Convolutions on tensor cores and their gradients, as implicit products on NHWC images (op_list.h, kConv2d…). The
// channels of each group must be whole chunks of 16 bytes (tensor_product.h). conv.cu takes convolutions with few
// channels.
#include "kernels/cuda/index.h"
#include "kernels/cuda/tensor_product.h"

namespace mlx::kernels::cuda {

static ProductSize forward_size(const Geometry& g) {
  return {g.n * g.oh * g.ow, g.o / g.groups, g.kh * g.kw * (g.c / g.groups), g.groups};
}

template <MmaType kType>
void run_tensor_conv(const void* state, const Args& args, int, int) {
  using Factor = FactorOf<kType>;
  const State& s = state_of(state);
  const Geometry& g = s.g;
  const ProductSize size = forward_size(g);
  const std::int64_t outputs = size.n, all = g.o, taps = size.k;
  const InputIndex input_at(g);
  const auto* x = static_cast<const Factor*>(args.inputs[0]);
  const Factor* w = weight_factors<kType>(s, args, g.o * g.kh * g.kw * (g.c / g.groups));
  const Epilogue epilogue = epilogue_of(s, args);
  tensor_product<kType, true, true>(
      args, size, x,
      [=] __device__(int group, int m, int k) -> const void* {
        const std::int64_t at = input_at(group, m, k);
        return at < 0 ? nullptr : x + at;
      },
      [=] __device__(int group, int o, int k) -> const void* { return w + (group * outputs + o) * taps + k; },
      [=] __device__(int group, int, int m, int o, float sum) {
        epilogue.store(m * all + group * outputs + o, group * outputs + o, sum);
      });
}

// dx[m, c] = sum over k = (kh·KW + kw)·outputs + o of dy at the window that has pixel m under its tap (kh, kw).
static ProductSize data_size(const Geometry& g) {
  return {g.n * g.h * g.w, g.c / g.groups, g.kh * g.kw * (g.o / g.groups), g.groups};
}

template <MmaType kType>
void run_tensor_conv_backward_data(const void* state, const Args& args, int, int) {
  using Factor = FactorOf<kType>;
  const State& s = state_of(state);
  const Geometry& g = s.g;
  const std::int64_t channels = g.c, per_group = g.c / g.groups;
  const OutputIndex output_at(g);
  const auto* dy = static_cast<const Factor*>(args.inputs[0]);
  const Factor* w = weight_factors<kType>(s, args, g.o * g.kh * g.kw * (g.c / g.groups));
  const RealsOut dx = reals_out(s, args, 0, g.y_type);
  tensor_product<kType, true, false>(
      args, data_size(g), dy,
      [=] __device__(int group, int m, int k) -> const void* {
        const std::int64_t at = output_at(group, m, k);
        return at < 0 ? nullptr : dy + at;
      },
      [=] __device__(int group, int c, int k) -> const void* { return w + output_at.weight(group, k, c); },
      [=] __device__(int group, int, int m, int c, float sum) { dx.store(m * channels + group * per_group + c, sum); });
}

template <MmaType kType>
static ProductSize tensor_weights_size(const Geometry& g) {
  ProductSize size{g.o / g.groups, g.kh * g.kw * (g.c / g.groups), g.n * g.oh * g.ow, g.groups};
  size.parts = tensor_parts_of_k<kType>(size);
  return size;
}

template <MmaType kType>
void run_tensor_conv_backward_weights(const void* state, const Args& args, int, int) {
  using Factor = FactorOf<kType>;
  const State& s = state_of(state);
  const Geometry& g = s.g;
  const std::int64_t all = g.o, outputs = g.o / g.groups;
  const InputIndex input_at(g);
  const auto* x = static_cast<const Factor*>(args.inputs[0]);
  const auto* dy = static_cast<const Factor*>(args.inputs[1]);
  float *dw = f32_out(&s, args, 0), *db = f32_out(&s, args, 1), *parts = static_cast<float*>(args.workspace);
  const ProductSize size = tensor_weights_size<kType>(g);
  tensor_product<kType, false, false>(
      args, size, x,
      [=] __device__(int group, int o, int m) -> const void* { return dy + m * all + group * outputs + o; },
      [=] __device__(int group, int k, int m) -> const void* {
        const std::int64_t at = input_at(group, m, k);
        return at < 0 ? nullptr : x + at;
      },
      part_sums(size, parts, dw));
  add_parts(args, size, parts, dw);
  if (db) bias_gradient(args, size.k, g.o, reals_in(s, args, 1, g.x_type), static_cast<Pair*>(args.workspace), db);
}

template <MmaType kType>
bool prepare_tensor_conv_of(const Problem& problem, Plan& plan) {
  const bool forward = problem.op == Op::kConv2d, weights = problem.op == Op::kConv2dBackwardWeights;
  const Run run = forward   ? run_tensor_conv<kType>
                  : weights ? run_tensor_conv_backward_weights<kType>
                            : run_tensor_conv_backward_data<kType>;
  const State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s || !whole_chunks<kType>(s->g.c / s->g.groups)) return false;
  if (!forward && !whole_chunks<kType>(s->g.o / s->g.groups)) return false;
  const ProductSize size = forward ? forward_size(s->g) : weights ? tensor_weights_size<kType>(s->g) : data_size(s->g);
  if (!tensor_sized(size) || !counts_by_int(s->g)) return false;
  plan.workspace_bytes = weights ? std::max(product_bytes(size), column_bytes(size.k, s->g.o))
                                 : recast_weights(s->g, problem.inputs[1].count()).bytes();
  return true;
}

bool prepare_tensor_conv(const Problem& problem, Plan& plan) {
  return with_mma_type(problem, [&]<MmaType kType>() { return prepare_tensor_conv_of<kType>(problem, plan); });
}

}  // namespace mlx::kernels::cuda
