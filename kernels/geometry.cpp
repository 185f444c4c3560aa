// Checks every problem against op_list.h and reduces it to plain numbers (geometry.h). One function for each family
// (those of sequences are in geometry_sequence.cpp): a kernel that is handed a Geometry never sees a size that would
// take it outside its tensors.
#include "kernels/geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/block_type.h"
#include "kernels/checker.h"
#include "kernels/image_change.h"

namespace mlx::kernels {
namespace {

bool is_quantized(const Shape& shape) {
  return shape.dtype == DType::kU8 || shape.dtype == DType::kS8;
}

// Scales must be usable as divisors.
void check_scales(Checker& check, const Attrs& attrs) {
  check.require(attrs.scale_x > 0.0f && attrs.scale_x < std::numeric_limits<float>::infinity() &&
                    attrs.scale_y > 0.0f && attrs.scale_y < std::numeric_limits<float>::infinity(),
                "scale_x and scale_y must be positive and finite");
}

// The types that a product of such factors can be stored as.
std::initializer_list<DType> results_of(const Shape& factor) {
  if (is_half(factor.dtype)) return kReal;
  return factor.dtype == DType::kF32 ? kFloat : kFloatOrBytes;
}

// Checks input 1, the weights: s8 for quantized factors; otherwise f32, or the factor's own type if it is half
// precision.
bool weights_are(Checker& check, int least_rank, const Shape& factor) {
  if (is_quantized(factor)) return check.input_is(1, least_rank, {DType::kS8});
  if (is_half(factor.dtype)) return check.input_is(1, least_rank, {DType::kF32, factor.dtype});
  return check.input_is(1, least_rank);
}

// Checks kernel, stride and pad of attrs, and computes the number of windows.
bool window(Checker& check, const Attrs& attrs, Geometry& g) {
  g.kh = attrs.kernel[0], g.kw = attrs.kernel[1], g.sh = attrs.stride[0], g.sw = attrs.stride[1];
  g.pt = attrs.pad[0], g.pl = attrs.pad[2], g.groups = attrs.groups;
  constexpr std::int64_t kMost = 1 << 20;
  bool sane = true;
  for (const std::int64_t value : {g.kh, g.kw, g.sh, g.sw, g.groups}) sane = sane && value >= 1 && value <= kMost;
  for (const std::int64_t value : attrs.pad) sane = sane && value >= 0 && value <= kMost;
  check.require(sane, "kernel, stride and groups must be at least 1, pad at least 0");
  if (!sane) return false;
  const std::int64_t high = g.h + attrs.pad[0] + attrs.pad[1] - g.kh, wide = g.w + attrs.pad[2] + attrs.pad[3] - g.kw;
  check.require(high >= 0 && wide >= 0, "the kernel is larger than the padded image");
  g.oh = high / g.sh + 1, g.ow = wide / g.sw + 1;
  return check.ok();
}

void image(const Shape& shape, Geometry& g) {
  g.n = dim(shape, 0), g.h = dim(shape, 1), g.w = dim(shape, 2), g.c = dim(shape, 3);
}

// Checks that all tensors have one shape; there are `inputs` inputs.
void same_shape(Checker& check, int inputs) {
  if (!check.input_is(0, 0)) return;
  for (int i = 1; i < inputs; ++i) check.input_equals(i, Checker::dims_of(check.input(0)));
  check.outputs_like(0, 0);
}

// The same, and each tensor may be stored in half precision.
void activation(Checker& check, int inputs) {
  if (!check.input_is(0, 0, kReal)) return;
  const Dims dims = Checker::dims_of(check.input(0));
  for (int i = 1; i < inputs; ++i) check.input_stored(i, dims);
  check.output_stored(0, dims);
}

void add(Checker& check, const Problem& problem) {
  same_shape(check, 2);
  check.require(problem.attrs.activation != Activation::kGelu, "addition fuses no gelu");
}

void max_pool(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kMaxPool;
  if (forward ? !check.input_is(0, 4, kRealOrBytes) : !check.output_is(0, 4, kReal)) return;
  image(forward ? check.input(0) : check.output(0), g);
  if (!window(check, problem.attrs, g)) return;
  g.o = g.c;
  check.require(g.h * g.w <= std::numeric_limits<std::int32_t>::max(), "the image is too large for an s32 index");
  const Dims y{g.n, g.oh, g.ow, g.c};
  if (forward) {
    if (is_quantized(check.input(0)))
      check.output_equals(0, y, check.input(0).dtype);
    else
      check.output_stored(0, y);
    return check.optional_output(1, y, DType::kS32);
  }
  check.input_stored(0, y);
  check.input_equals(1, y, DType::kS32);
}

void avg_pool(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kAvgPool;
  if (forward ? !check.input_is(0, 4, kFloatOrBytes) : !check.output_is(0, 4)) return;
  image(forward ? check.input(0) : check.output(0), g);
  g.quantized = forward && is_quantized(check.input(0));
  if (forward)
    check.output_equals(0, {g.n, g.c});
  else
    check.input_equals(0, {g.n, g.c});
}

// Checks the outputs of every loss, and the factor of its gradient.
void loss_outputs(Checker& check, Geometry& g) {
  if (check.has_input(2) && check.input_is(2, 1)) check.require(check.input(2).count() > 0, "the factor is missing");
  check.output_equals(0, {1});
  if (!check.has_output(1)) return;
  check.output_stored(1, Checker::dims_of(check.input(0)));
  g.gradient_type = check.output(1).dtype;
}

void cross_entropy(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 1, kReal)) return;
  check.input_equals(1, without_last(check.input(0)), DType::kS32);
  check.require(problem.attrs.rate >= 0.0f && problem.attrs.rate < 1.0f, "label smoothing must be in [0, 1)");
  loss_outputs(check, g);
  for (const int i : {2, 3}) check.optional_output(i, {1}, DType::kS32);
}

void target_loss(Checker& check, const Problem& problem, Geometry& g) {
  const bool regression = problem.op == Op::kRegressionLoss;
  if (!check.input_is(0, 1, regression ? kFloat : kReal)) return;
  check.input_equals(1, Checker::dims_of(check.input(0)));
  check.require(problem.attrs.rate >= 0.0f && problem.attrs.rate < 1.0f, "label smoothing must be in [0, 1)");
  check.require(problem.attrs.delta >= 0.0f, "delta must be at least 0");
  loss_outputs(check, g);
  if (regression) return;
  for (const int i : {2, 3}) check.optional_output(i, {1}, DType::kS32);
}

void muon_direction(Checker& check, const Problem& problem) {
  same_shape(check, 2);
  if (!check.ok()) return;
  check.output_equals(1, Checker::dims_of(check.input(0)));
  check.optional_input(2, {1});
}

void norm(Checker& check) {
  if (!check.input_is(0, 0)) return;
  check.optional_input(1, {1});
  check.output_equals(0, {1});
}

}  // namespace

void check_linear(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kLinear, data = problem.op == Op::kLinearBackwardData;
  if (!check.input_is(0, 1, forward ? kRealOrBytes : kReal)) return;
  const Shape& first = check.input(0);
  g.quantized = is_quantized(first);
  if (problem.op == Op::kLinearBackwardWeights) {
    if (!check.input_is(1, 1, {first.dtype})) return;
    g.in_width = last(first), g.out_width = last(check.input(1));
    check.input_equals(1, with_last(first, g.out_width), first.dtype);
    check.output_equals(0, {g.out_width, g.in_width});
    check.optional_output(1, {g.out_width});
    return;
  }
  if (!weights_are(check, 2, first)) return;
  g.out_width = dim(check.input(1), 0), g.in_width = dim(check.input(1), 1);
  check.input_equals(1, {g.out_width, g.in_width}, check.input(1).dtype);
  check.require(last(first) == (data ? g.out_width : g.in_width), "the last dim of input 0 must match the weights");
  const Dims result = with_last(first, data ? g.in_width : g.out_width);
  if (!check.output_is(0, 1, results_of(first))) return;
  const DType stored = check.output(0).dtype;
  check.output_equals(0, result, stored);
  const bool gelu = problem.attrs.activation == Activation::kGelu;
  g.has_pre = forward ? check.has_output(1) : check.has_input(2);
  check.require(!g.has_pre || (gelu && !g.quantized),
                "the pre-activation is for layers with gelu that are not quantized");
  if (!forward) {
    check.require(g.has_pre || problem.attrs.activation == Activation::kNone, "the gradient of gelu needs input 2");
    return check.optional_input(2, result, stored);
  }
  check.optional_output(1, result, stored);
  check.optional_input(2, {g.out_width});
  if (g.quantized) check.input_equals(3, {g.out_width});
  check_scales(check, problem.attrs);
}

void check_conv(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kConv2d, data = problem.op == Op::kConv2dBackwardData;
  if (!check.input_is(0, 4, forward ? kRealOrBytes : kReal)) return;
  const Shape& first = check.input(0);
  if (data && !check.output_is(0, 4, results_of(first))) return;
  image(data ? check.output(0) : first, g);
  if (!window(check, problem.attrs, g)) return;
  g.quantized = forward && is_quantized(first);
  const bool weights_out = problem.op == Op::kConv2dBackwardWeights;
  if (weights_out ? !check.output_is(0, 4) : !weights_are(check, 4, first)) return;
  g.o = dim(weights_out ? check.output(0) : check.input(1), 0);
  check.require(g.c % g.groups == 0 && g.o % g.groups == 0, "channels must be a multiple of groups");
  if (!check.ok()) return;
  const Dims kernel{g.o, g.kh, g.kw, g.c / g.groups}, y{g.n, g.oh, g.ow, g.o};
  if (weights_out) {
    check.input_equals(1, y, first.dtype);
    check.output_equals(0, kernel);
    return check.optional_output(1, {g.o});
  }
  check.input_equals(1, kernel, check.input(1).dtype);
  if (data) return check.input_equals(0, y, first.dtype);
  check.optional_input(2, {g.o});
  if (!check.output_is(0, 4, results_of(first))) return;
  check.output_equals(0, y, check.output(0).dtype);
  if (g.quantized) check.input_equals(3, {g.o});
  check_scales(check, problem.attrs);
}

constexpr std::int64_t kMostRanks = 1 << 20;

// Input 5, what the ranks have given.
void check_gathered(Checker& check, const Dims& channels, Geometry& g) {
  if (!check.input_is(5, 3)) return;
  const Shape& gathered = check.input(5);
  check.require(gathered.rank == 3 && dim(gathered, 0) >= 1 && dim(gathered, 0) <= kMostRanks &&
                    dim(gathered, 1) == 2 && dim(gathered, 2) == channels[0],
                "input 5 must be [ranks,2,channels]");
  if (check.ok()) g.parts = static_cast<int>(dim(gathered, 0));
}

void check_batch_norm_gradient(Checker& check, const Problem& problem, const Dims& dims, const Dims& channels,
                               Geometry& g) {
  const bool joined = problem.op == Op::kBatchNormSynchronisedBackward;
  check.input_stored(1, dims);
  for (const int i : {2, 3, 4}) check.input_equals(i, channels);
  if (joined) check_gathered(check, channels, g);
  if (problem.attrs.activation != Activation::kNone) check.input_equals(joined ? 6 : 5, channels);
  for (const int i : {1, 2})
    if (!joined) check.output_equals(i, channels);
}

// Tensors that are kept for the backward pass, or only enter products, may be stored in half precision.
void check_batch_norm(Checker& check, const Problem& problem, Geometry& g) {
  const bool training = problem.op != Op::kBatchNormInference;
  const bool sums = problem.op == Op::kBatchNormStatistics || problem.op == Op::kBatchNormGradientSums;
  if (!check.input_is(0, 1, training ? kReal : kFloat)) return;
  const Dims dims = Checker::dims_of(check.input(0));
  const Dims channels{last(check.input(0))};
  if (sums)
    check.output_equals(0, {1, 2, channels[0]});
  else if (training)
    check.output_stored(0, dims);
  else
    check.output_equals(0, dims);
  check.require(problem.attrs.activation != Activation::kGelu, "batch norm fuses no gelu");
  switch (problem.op) {
    case Op::kBatchNormStatistics:
      return;
    case Op::kBatchNormBackward:
    case Op::kBatchNormGradientSums:
    case Op::kBatchNormSynchronisedBackward:
      return check_batch_norm_gradient(check, problem, dims, channels, g);
    default:
      break;
  }
  for (const int i : {1, 2, 3, 4}) check.input_equals(i, channels);
  if (problem.op == Op::kBatchNormInference) return;
  for (const int i : {1, 2, 3, 4}) check.output_equals(i, channels);
  if (problem.op == Op::kBatchNormSynchronised) check_gathered(check, channels, g);
}

void check_dropout(Checker& check, const Problem& problem, Geometry& g) {
  same_shape(check, 1);
  if (problem.attrs.whole_example && check.input_is(0, 1)) g.n = dim(check.input(0), 0);
  check.require(problem.attrs.rate >= 0.0f && problem.attrs.rate < 1.0f, "the dropout rate must be in [0, 1)");
}

void check_quantize(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kQuantize;

  if (!(forward ? check.input_is(0, 0) : check.input_is(0, 0, kBytes))) return;
  if (!(forward ? check.output_is(0, 0, kBytes) : check.output_is(0, 0))) return;
  check.output_equals(0, Checker::dims_of(check.input(0)), check.output(0).dtype);
  check_scales(check, problem.attrs);
}

void check_linear_groups(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 1) || !check.input_is(1, 2, kBytes) || !check.input_is(2, 2, {DType::kF16})) return;
  const bool halves = check.input(1).dtype == DType::kU8, backward = problem.op == Op::kLinearGroupsBackwardData;
  g.out_width = dim(check.input(1), 0), g.in_width = dim(check.input(1), 1) * (halves ? 2 : 1);
  g.groups = dim(check.input(2), 0);
  check.require(g.groups > 0 && g.in_width % g.groups == 0 && g.in_width / g.groups % 32 == 0,
                "the inputs of a layer must be whole groups of a multiple of 32");
  check.input_equals(0, with_last(check.input(0), backward ? g.out_width : g.in_width));
  check.input_equals(1, {g.out_width, halves ? g.in_width / 2 : g.in_width}, check.input(1).dtype);
  check.input_equals(2, {g.groups, g.out_width}, DType::kF16);
  g.w_type = check.input(1).dtype;
  if (!backward) check.optional_input(3, {g.out_width});
  check.output_equals(0, with_last(check.input(0), backward ? g.in_width : g.out_width));
}

namespace {

// Runs of rows of blocks. Returns their bytes.
std::int64_t block_runs(Checker& check, const Attrs& attrs, std::int64_t width, Geometry& g) {
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  const IntList &types = attrs.blocks, &rows = attrs.block_rows;
  check.require(width > 0 && width <= kMost, "the width of rows is not possible");
  check.require(types.count >= 1 && types.count == rows.count && types.count <= kMaxTensors,
                "each type of blocks must have a number of rows");
  std::int64_t bytes = 0;
  g.out_width = 0;
  for (g.parts = 0; check.ok() && g.parts < types.count; ++g.parts) {
    const auto at = static_cast<std::size_t>(g.parts);
    const BlockType* const type = find_block_type(types.at[at]);
    check.require(type && rows.at[at] >= 1 && rows.at[at] <= kMost, "a type or number of rows is not possible");
    if (type) check.require(width % type->weights == 0, "rows must be whole blocks");
    if (!check.ok()) break;
    g.part_type[at] = type->number, g.part_size[at] = rows.at[at];
    g.part_begin[at] = bytes, g.part_row[at] = g.out_width;
    g.layout[2 * at] = type->number, g.layout[2 * at + 1] = rows.at[at];
    g.out_width += rows.at[at], bytes += rows.at[at] * (width / type->weights) * type->bytes;
  }
  g.layout[2 * g.parts] = width;
  return bytes;
}

}  // namespace

void check_linear_blocks(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 1) || !check.input_is(1, 1, {DType::kU8})) return;
  g.in_width = last(check.input(0));
  const std::int64_t bytes = block_runs(check, problem.attrs, g.in_width, g);
  check.input_equals(1, {bytes}, DType::kU8);
  check.optional_input(2, {g.out_width});
  check.output_equals(0, with_last(check.input(0), g.out_width));
}

void check_embedding_blocks(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 0, {DType::kS32}) || !check.input_is(1, 1, {DType::kU8}) || !check.output_is(0, 1)) return;
  g.dim = last(check.output(0));
  const std::int64_t bytes = block_runs(check, problem.attrs, g.dim, g);
  check.require(g.parts == 1, "a table has one type of blocks");
  g.table = g.out_width;
  check.input_equals(1, {bytes}, DType::kU8);
  Dims y = Checker::dims_of(check.input(0));
  y.push_back(g.dim);
  check.output_equals(0, y);
}

void check_cast(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 0, kReal) || !check.output_is(0, 0, kReal)) return;
  check.require(check.input(0).dtype != check.output(0).dtype, "a cast is between f32 and bf16 or f16");
  check.output_equals(0, Checker::dims_of(check.input(0)), check.output(0).dtype);
}

void check_optimizer(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 0)) return;
  const Dims w = Checker::dims_of(check.input(0));
  check.input_equals(1, w);
  check.output_equals(0, w);
  const int states = problem.op == Op::kAdamW ? 2 : 1;
  check.input_equals(2 + states, {1});
  check.optional_input(3 + states, {1});
  const bool plain = problem.op == Op::kSgd && problem.attrs.momentum == 0.0f && !check.has_input(2);
  if (plain) return;  // SGD without momentum has no velocity
  for (int i = 0; i < states; ++i) check.input_equals(2 + i, w), check.output_equals(1 + i, w);
}

void check_gradient_scale(Checker& check, const Problem& problem, Geometry& g) {
  check.input_equals(0, {1});
  check.optional_input(1, {2});
  for (const int i : {0, 1}) check.output_equals(i, {1});
  check.optional_output(2, {1});
  if (check.has_input(1)) check.output_equals(3, {2});
  check.require(problem.attrs.clip >= 0.0f, "clip must be at least 0");
}

void check_augment(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 4, {DType::kU8})) return;
  image(check.input(0), g);
  const Dims pixels{g.n, g.h, g.w, g.c}, changes{g.n, kChangeFields};
  const bool mixed = check.has_input(3) || check.has_input(4) || check.has_input(5);
  for (const int i : {0, 3}) {
    if (i == 3 && !mixed) continue;
    check.input_equals(i, pixels, DType::kU8);
    check.input_equals(i + 1, changes, DType::kS32);
  }
  check.input_equals(2, {g.c, kPixelValues});
  if (mixed) check.input_equals(5, {1});
  check.output_stored(0, pixels);
  check.require(g.h * g.w * g.c <= kMostImageElements, "the images are too large");
}

void check_pointwise(Checker& check, const Problem& problem, Geometry& g) {
  switch (problem.op) {
    case Op::kRelu:
    case Op::kRelu6:
    case Op::kGelu:
      return activation(check, 1);
    case Op::kSoftCap:
    case Op::kSoftCapBackward:
      check.require(problem.attrs.cap > 0.0f && std::isfinite(problem.attrs.cap), "the cap must be above 0");
      return activation(check, problem.op == Op::kSoftCap ? 1 : 2);
    case Op::kAdd:
      return add(check, problem);
    case Op::kScaledAdd:
      return same_shape(check, 2);
    case Op::kGeluErf:
      return same_shape(check, 1);
    default:  // gradients of activations
      return activation(check, 2);
  }
}

void check_pool(Checker& check, const Problem& problem, Geometry& g) {
  if (problem.op == Op::kMaxPool || problem.op == Op::kMaxPoolBackward) return max_pool(check, problem, g);
  avg_pool(check, problem, g);
}

void check_loss(Checker& check, const Problem& problem, Geometry& g) {
  if (problem.op == Op::kSoftmaxCrossEntropy) return cross_entropy(check, problem, g);
  if (problem.op == Op::kSoftCrossEntropy) return target_loss(check, problem, g);
  check.input_is(0, 1);
  same_shape(check, 1);
}

void check_target_loss(Checker& check, const Problem& problem, Geometry& g) {
  target_loss(check, problem, g);
}

void check_gradients(Checker& check, const Problem& problem, Geometry& g) {
  if (problem.op == Op::kMuonDirection) return muon_direction(check, problem);
  if (problem.op == Op::kNorm) return norm(check);
  check.input_equals(2, {2});
  same_shape(check, 2);
}

namespace {

// In the order of enum Op; null for a view.
using Check = void (*)(Checker& check, const Problem& problem, Geometry& g);
constexpr Check kChecks[] = {
#define MLX_OP(op, name, family, ...) check_##family,
#define MLX_VIEW(...) nullptr,
#define MLX_COLLECTIVE(...) nullptr,
#include "kernels/op_list.h"
};

void check_family(Checker& check, const Problem& problem, Geometry& g) {
  const Check family = problem.op < Op::kCount ? kChecks[static_cast<std::size_t>(problem.op)] : nullptr;
  if (!family) return check.require(false, "there is no kernel for this operation");
  family(check, problem, g);
}

}  // namespace

bool has_dtype(const Problem& problem, DType dtype) {
  const auto is = [dtype](const Shape& shape) { return shape.rank >= 0 && shape.dtype == dtype; };
  return std::any_of(problem.inputs, problem.inputs + problem.input_count, is) ||
         std::any_of(problem.outputs, problem.outputs + problem.output_count, is);
}

std::string describe(const Problem& problem, Geometry& geometry) {
  geometry = {};
  if (problem.input_count < 0 || problem.input_count > kMaxTensors || problem.output_count < 0 ||
      problem.output_count > kMaxTensors)
    return fmt::format("at most {} inputs and outputs", kMaxTensors);
  Checker check(problem);
  check_family(check, problem, geometry);
  check.require(!(has_dtype(problem, DType::kBF16) && has_dtype(problem, DType::kF16)), "bf16 and f16 cannot be mixed");
  if (!check.ok()) return check.wrong();
  for (int i = 0; i < kMaxTensors; ++i) {
    geometry.has_input[i] = check.has_input(i);
    geometry.has_output[i] = check.has_output(i);
  }
  const Shape& first = problem.inputs[0];
  geometry.count = first.count();
  geometry.width = first.rank > 0 ? last(first) : 1;
  geometry.rows = first.rank > 0 ? leading(first) : 1;
  geometry.x_type = first.dtype;
  geometry.y_type = problem.outputs[0].dtype;
  if (geometry.has_input[1]) geometry.dy_type = geometry.w_type = problem.inputs[1].dtype;
  return {};
}

}  // namespace mlx::kernels
