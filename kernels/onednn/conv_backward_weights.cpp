// kConv2dBackwardWeights in three phases. Each slice of images computes its own dw and db in the workspace; the partial
// sums are added in slice order; the sum is converted from oneDNN's layout to the plain one. With one slice the second
// phase is omitted. (oneDNN's own threading would make the order of these sums depend on the number of threads.)
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/onednn/conv.h"
#include "kernels/onednn/quantized.h"
#include "kernels/onednn/sliced.h"

namespace mlx::kernels::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr int kMostSlices = 8;                  // each needs a dw in the workspace, and one more addition
constexpr std::int64_t kSumElements = 1 << 15;  // elements of dw per slice of the second phase

struct Slice {
  Call call;
  std::size_t x = 0, dy = 0, scratchpad = 0;  // offsets in bytes
  bool has_scratchpad = false;
};

struct BackwardWeights {
  std::vector<Slice> slices;
  Call reorder;                  // opaque dw → plain
  std::int64_t dw_elements = 0;  // in the opaque layout, with padding
  std::int64_t channels = 0;     // of y
  std::size_t dw_stride = 0;     // bytes between partial dw; they are first in the workspace
  std::size_t db_begin = 0, db_stride = 0;
  bool has_db = false;

  void run(const Args& args, int phase, int index) const {
    if (phase == 0) return make_partial(args, index);
    if (phase == 1 && slices.size() > 1) return add_partials(args, index);
    reorder.run({args.workspace, args.outputs[0]});
    if (has_db) std::memcpy(args.outputs[1], at(args, db_begin), static_cast<std::size_t>(channels) * sizeof(float));
  }

  static float* at(const Args& args, std::size_t offset) {
    return reinterpret_cast<float*>(static_cast<char*>(args.workspace) + offset);
  }

  void make_partial(const Args& args, int index) const {
    const Slice& slice = slices[static_cast<std::size_t>(index)];
    const char* x = static_cast<const char*>(args.inputs[0]) + slice.x;
    const char* dy = static_cast<const char*>(args.inputs[1]) + slice.dy;
    const float* dw = at(args, static_cast<std::size_t>(index) * dw_stride);
    const float* db = at(args, db_begin + static_cast<std::size_t>(index) * db_stride);
    const float* scratchpad = at(args, slice.scratchpad);
    if (has_db && slice.has_scratchpad)
      slice.call.run({x, dy, dw, db, scratchpad});
    else if (has_db)
      slice.call.run({x, dy, dw, db});
    else if (slice.has_scratchpad)
      slice.call.run({x, dy, dw, scratchpad});
    else
      slice.call.run({x, dy, dw});
  }

  // Adds the other partial sums to the first one, a cache-sized piece at a time.
  void add_partials(const Args& args, int index) const {
    const std::int64_t begin = index * kSumElements, end = std::min(begin + kSumElements, dw_elements);
    add(args, 0, dw_stride, begin, end);
    if (has_db && index == 0) add(args, db_begin, db_stride, 0, channels);
  }

  void add(const Args& args, std::size_t offset, std::size_t stride, std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t kPiece = 2048;
    float* const total = at(args, offset);
    for (std::int64_t piece = begin; piece < end; piece += kPiece) {
      const std::int64_t stop = std::min(piece + kPiece, end);
      for (std::size_t i = 1; i < slices.size(); ++i) {
        const float* const partial = at(args, offset + i * stride);
#pragma omp simd
        for (std::int64_t e = piece; e < stop; ++e) total[e] += partial[e];
      }
    }
  }
};

using Conv = dnnl::convolution_backward_weights;

// `type`: that of x and dy; dw and db are f32.
Conv::primitive_desc describe(const dnnl::engine& engine, const Geometry& g, memory::data_type type,
                              std::int64_t images, bool has_db, const Desc* layout) {
  const auto f32 = memory::data_type::f32;
  const Desc x(g.source(images), type, Tag::nhwc), dy(g.destination(images), type, Tag::nhwc),
      db({g.out_channels}, f32, Tag::x);
  const Desc any(g.weights(), type, Tag::any), dw = layout ? *layout : Desc(g.weights(), f32, Tag::any);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, algorithm, x, any, dy, g.stride, g.before, g.after}, engine);
  const Conv::desc op = has_db ? Conv::desc(algorithm, x, dw, db, dy, g.stride, g.before, g.after)
                               : Conv::desc(algorithm, x, dw, dy, g.stride, g.before, g.after);
  return {op, user_scratchpad(), engine, hint};
}

Call bind(const dnnl::engine& engine, const Conv::primitive_desc& desc, bool has_db) {
  const Call::Slot x{DNNL_ARG_SRC, desc.src_desc()}, dy{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()};
  const Call::Slot dw{DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()};
  const Call::Slot scratchpad{DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()};
  const bool has_scratchpad = scratchpad.desc.get_size() > 0;
  const Conv conv(desc);
  if (!has_db) return has_scratchpad ? Call(engine, conv, {x, dy, dw, scratchpad}) : Call(engine, conv, {x, dy, dw});
  const Call::Slot db{DNNL_ARG_DIFF_BIAS, desc.diff_bias_desc()};
  return has_scratchpad ? Call(engine, conv, {x, dy, dw, db, scratchpad}) : Call(engine, conv, {x, dy, dw, db});
}

bool prepare_conv_backward_weights(const Problem& problem, Plan& plan) {
  Geometry geometry;
  const Shape &x = problem.inputs[0], &dy = problem.inputs[1], &dw = problem.outputs[0];
  if (!is_real(x.dtype) || dy.dtype != x.dtype) return false;
  if (!Geometry::of(x, dw, dy, problem.attrs, geometry)) return false;
  const bool has_db = problem.output_count > 1 && problem.outputs[1].rank >= 0;

  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Cut cuts = cut(geometry.images, kMostSlices, 1, geometry.work());
  const int last_index = cuts.count - 1;
  const memory::data_type type = data_type(x.dtype);
  const Conv::primitive_desc first = describe(engine, geometry, type, cuts.size(0), has_db, nullptr);
  const Desc layout = first.diff_weights_desc();
  const Conv::primitive_desc last = cuts.size(last_index) == cuts.size(0)
                                        ? first
                                        : describe(engine, geometry, type, cuts.size(last_index), has_db, &layout);
  for (const Conv::primitive_desc* desc : {&first, &last}) {
    if (std::string(desc->impl_info_str()).starts_with("ref")) return false;
  }

  auto state = std::make_unique<BackwardWeights>();
  state->has_db = has_db;
  state->channels = geometry.out_channels;
  state->dw_elements = static_cast<std::int64_t>(layout.get_size() / sizeof(float));
  state->dw_stride = round_up(layout.get_size());
  state->db_begin = static_cast<std::size_t>(cuts.count) * state->dw_stride;
  state->db_stride = has_db ? round_up(static_cast<std::size_t>(geometry.out_channels) * sizeof(float)) : 0;
  std::size_t workspace = state->db_begin + static_cast<std::size_t>(cuts.count) * state->db_stride;
  for (int i = 0; i < cuts.count; ++i) {
    const Conv::primitive_desc& desc = i == last_index ? last : first;
    Slice slice;
    slice.call = bind(engine, desc, has_db);
    slice.x = static_cast<std::size_t>(i) * first.src_desc().get_size();
    slice.dy = static_cast<std::size_t>(i) * first.diff_dst_desc().get_size();
    slice.has_scratchpad = desc.scratchpad_desc().get_size() > 0;
    slice.scratchpad = workspace;
    workspace += round_up(desc.scratchpad_desc().get_size());
    state->slices.push_back(std::move(slice));
  }
  const Desc plain = geometry.plain_weights(memory::data_type::f32);
  const dnnl::reorder::primitive_desc reorder(engine, layout, engine, plain);
  state->reorder = Call(engine, dnnl::reorder(reorder), {{DNNL_ARG_FROM, layout}, {DNNL_ARG_TO, plain}});

  const bool adds = cuts.count > 1;
  plan.phases = adds ? 3 : 2;
  plan.slices[0] = cuts.count;
  if (adds) plan.slices[1] = static_cast<int>((state->dw_elements + kSumElements - 1) / kSumElements);
  plan.workspace_bytes = workspace;
  give(plan, std::move(state));
  return true;
}

}  // namespace

const Kernel kConvBackwardWeightsKernel{Op::kConv2dBackwardWeights, guarded<prepare_conv_backward_weights>};

}  // namespace mlx::kernels::onednn
