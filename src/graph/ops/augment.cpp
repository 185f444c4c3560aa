// Images from bytes: the beginning of a GPU's training graph. Nothing before it is trained.

#include "graph/rule.h"
#include "kernels/image_change.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kOwn = 0, kTable = 2, kPartner = 3, kShare = 5;  // inputs

std::vector<ValueId> infer_augment(Graph& graph, const Attrs& attrs, const std::vector<ValueId>& inputs, const Dims*,
                                   const std::string& name) {
  Rule rule(graph, Op::kAugment, inputs, name);
  rule.require_rank(kOwn, 4);
  const Dims pixels = rule.dims(kOwn), changes{pixels[0], Dim::of(kernels::kChangeFields)};
  const std::int64_t channels = rule.size(kOwn, 3);
  const auto require_images = [&](std::size_t first) {
    rule.require_dtype(first, DType::kU8);
    rule.require_shape(first, pixels);
    rule.require_dtype(first + 1, DType::kS32);
    rule.require_shape(first + 1, changes);
  };
  require_images(kOwn);
  rule.require_dtype(kTable, DType::kF32);
  rule.require_shape(kTable, {Dim::of(channels), Dim::of(kernels::kPixelValues)});
  const bool mixed = rule.has(kPartner);
  rule.require(rule.has(kPartner + 1) == mixed && rule.has(kShare) == mixed,
               "partners have pixels, changes and a share");
  if (mixed) {
    require_images(kPartner);
    rule.require_dtype(kShare, DType::kF32);
    rule.require_vector(kShare, 1);
  }
  return {rule.out({}, stored_type(rule, attrs), pixels)};
}

}  // namespace

std::vector<OpDef> augment_ops() {
  return {{.op = Op::kAugment,
           .text = {"pixels u8[N,H,W,C], changes s32[N,6], table f32[C,256], (partner u8[N,H,W,C]), (partner_changes "
                    "s32[N,6]), (share[1]) -> y real[N,H,W,C]",
                    "output",
                    "Images from bytes by a table for each channel, with random changes that were drawn for each; "
                    "with partners, y = share y + (1 - share) y_partner (mixup, Zhang et al. 2018)."},
           .stores_half = true,
           .random = true,
           .infer = infer_augment,
           .cost = per_output<1>}};
}

}  // namespace mlx::graph
