// A graph that computes its images from bytes. A GPU then receives a quarter of the bytes of f32 images, and for each
// image six random numbers that describe its changes.

#include "base/error.h"
#include "graph/passes/passes.h"
#include "kernels/image_change.h"

namespace mlx::graph {

Graph augment_inside(const Graph& forward, const RawImages& raw) {
  Graph graph = forward;
  const ValueId images = graph.find(raw.images);
  if (std::erase(graph.inputs, images) == 0 || graph.value(images).dims.size() != 4 ||
      graph.value(images).dtype != DType::kF32)
    fail(ErrorKind::kUsage, "the graph has no input '{}' of images", raw.images);
  const Dims pixels = graph.value(images).dims, changes{pixels[0], Dim::of(kernels::kChangeFields)};
  Node node;
  node.op = Op::kAugment;
  node.name = "augment";
  node.inputs = {graph.input(raw.pixels, DType::kU8, pixels), graph.input(raw.changes, DType::kS32, changes),
                 graph.input(raw.table, DType::kF32, {pixels[3], Dim::of(kernels::kPixelValues)})};
  if (raw.mixed) {
    for (const ValueId id :
         {graph.input(raw.partner_pixels, DType::kU8, pixels), graph.input(raw.partner_changes, DType::kS32, changes),
          graph.input(raw.share, DType::kF32, {Dim::of(1)})})
      node.inputs.push_back(id);
  }
  node.outputs = {images};
  graph.values[static_cast<std::size_t>(images)].role = Role::kActivation;
  graph.nodes.insert(graph.nodes.begin(), std::move(node));
  return graph;
}

}  // namespace mlx::graph
