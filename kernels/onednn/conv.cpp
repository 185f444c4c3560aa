// kConv2d (f32, bf16 and quantized) and kConv2dBackwardData: direct convolutions with packed weights, images cut into
// slices.
//
// Measured in GFLOP/s on one core of a Zen 4 (peak 118 in f32 at its usual clock, four times that in int8), 3×3, batch
// 128:
//   16 and more channels: f32 104-136, backward to the data 106-139, int8 340-528 (3.8-4.0 times f32)
//   3 channels: f32 89, int8 162-212; 1 channel: f32 59, int8 54 (u8) and 72 (s8), since its blocks of four channels
//   stay mostly empty; depthwise: 27-76.
// All of these are served. Where kernels/simd is faster, the table asks it first.
#include "kernels/onednn/conv.h"

#include "kernels/onednn/quantized.h"
#include "kernels/onednn/sliced.h"

namespace mlx::kernels::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr int kMostSlices = 32;

struct Forward {
  Geometry geometry;
  DType x, w, y;
  bool has_bias;
  dnnl::primitive_attr attr;

  Parts operator()(const dnnl::engine& engine, std::int64_t images, const Desc* weights) const {
    const Geometry& g = geometry;
    const Desc source(g.source(images), data_type(x), Tag::nhwc),
        destination(g.destination(images), data_type(y), Tag::nhwc);
    const Desc wanted = weights ? *weights : Desc(g.weights(), data_type(w), Tag::any);
    const Desc bias = has_bias ? Desc({g.out_channels}, memory::data_type::f32, Tag::x) : Desc();
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    using Conv = dnnl::convolution_forward;
    const Conv::desc op =
        has_bias ? Conv::desc(kind, algorithm, source, wanted, bias, destination, g.stride, g.before, g.after)
                 : Conv::desc(kind, algorithm, source, wanted, destination, g.stride, g.before, g.after);
    const Conv::primitive_desc desc(op, attr, engine);
    return {Conv(desc), desc.impl_info_str(), source, desc.weights_desc(), bias, destination, desc.scratchpad_desc()};
  }
};

struct BackwardData {
  Geometry geometry;
  DType from, to;  // of dy, and of dx

  Parts operator()(const dnnl::engine& engine, std::int64_t images, const Desc* weights) const {
    const Geometry& g = geometry;
    const Desc dx(g.source(images), data_type(to), Tag::nhwc), dy(g.destination(images), data_type(from), Tag::nhwc);
    const Desc any(g.weights(), data_type(from), Tag::any), x(g.source(images), data_type(from), Tag::nhwc);
    const auto algorithm = dnnl::algorithm::convolution_direct;
    // oneDNN wants the forward convolution as a hint; it is never executed.
    const dnnl::convolution_forward::primitive_desc hint(
        {dnnl::prop_kind::forward_training, algorithm, x, any, dy, g.stride, g.before, g.after}, engine);
    using Conv = dnnl::convolution_backward_data;
    const Conv::primitive_desc desc({algorithm, dx, weights ? *weights : any, dy, g.stride, g.before, g.after},
                                    user_scratchpad(), engine, hint);
    return {Conv(desc),        desc.impl_info_str(), dy, desc.weights_desc(), Desc(), dx, desc.scratchpad_desc(),
            DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC};
  }
};

bool prepare_conv(const Problem& problem, Plan& plan) {
  Geometry geometry;
  const Shape &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (!Geometry::of(x, w, y, problem.attrs, geometry)) return false;
  const auto fused = epilogue(problem);
  if (!fused) return false;

  Sliceable conv;
  conv.slices = cut(geometry.images, kMostSlices, 1, geometry.work());
  conv.plain_weights = geometry.plain_weights(data_type(w.dtype));
  conv.own_bias = fused->own_bias;
  const bool has_bias = has_input(problem, 2);
  if (has_bias) conv.bias_input = 2;
  conv.make = Forward{geometry, x.dtype, packed_type(x, w), y.dtype, has_bias, fused->attr};
  return prepare_sliced(conv, plan);
}

bool prepare_conv_backward_data(const Problem& problem, Plan& plan) {
  Geometry geometry;
  const Shape &dy = problem.inputs[0], &w = problem.inputs[1], &dx = problem.outputs[0];
  if (!is_real(dy.dtype) || w.dtype != DType::kF32) return false;
  if (!Geometry::of(dx, w, dy, problem.attrs, geometry)) return false;

  Sliceable conv;
  conv.slices = cut(geometry.images, kMostSlices, 1, geometry.work());
  conv.plain_weights = geometry.plain_weights(memory::data_type::f32);
  conv.make = BackwardData{geometry, dy.dtype, dx.dtype};
  return prepare_sliced(conv, plan);
}

}  // namespace

bool Geometry::of(const Shape& x, const Shape& w, const Shape& y, const Attrs& attrs, Geometry& geometry) {
  if (x.rank != 4 || w.rank != 4 || y.rank != 4 || attrs.groups < 1) return false;
  if (x.count() == 0 || w.count() == 0 || y.count() == 0) return false;
  if (w.dims[3] * attrs.groups != x.dims[3] || w.dims[0] % attrs.groups != 0) return false;
  geometry.images = x.dims[0];
  geometry.height = x.dims[1];
  geometry.width = x.dims[2];
  geometry.channels = x.dims[3];
  geometry.out_height = y.dims[1];
  geometry.out_width = y.dims[2];
  geometry.out_channels = y.dims[3];
  geometry.groups = attrs.groups;
  geometry.kernel = {w.dims[1], w.dims[2]};
  geometry.stride = {attrs.stride[0], attrs.stride[1]};
  geometry.before = {attrs.pad[0], attrs.pad[2]};
  geometry.after = {attrs.pad[1], attrs.pad[3]};
  return true;
}

double Geometry::work() const {
  const std::int64_t outputs = out_height * out_width * out_channels;
  const std::int64_t products_each = kernel[0] * kernel[1] * (channels / groups);
  return 2.0 * static_cast<double>(outputs) * static_cast<double>(products_each);
}

Dims Geometry::source(std::int64_t images_in_slice) const {
  return {images_in_slice, channels, height, width};
}

Dims Geometry::destination(std::int64_t images_in_slice) const {
  return {images_in_slice, out_channels, out_height, out_width};
}

Dims Geometry::weights() const {
  if (groups == 1) return {out_channels, channels, kernel[0], kernel[1]};
  return {groups, out_channels / groups, channels / groups, kernel[0], kernel[1]};
}

Desc Geometry::plain_weights(dnnl::memory::data_type type) const {
  const std::int64_t c = channels / groups, row = kernel[1] * c, filter = kernel[0] * row;
  if (groups == 1) return {weights(), type, Dims{filter, 1, row, c}};
  return {weights(), type, Dims{filter * (out_channels / groups), filter, 1, row, c}};
}

const Kernel kConvKernel{Op::kConv2d, guarded<prepare_conv>};
const Kernel kConvBackwardDataKernel{Op::kConv2dBackwardData, guarded<prepare_conv_backward_data>};

}  // namespace mlx::kernels::onednn
