// Walks the graph once. A value may exist in f32, in eight bits, or in both; a form is added when the first node needs
// it. A layer writes eight bits directly if only int8 layers read its result, perhaps through pooling or a reshape.

#include "compress/quantized_graph.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "graph/new_tensor.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"

namespace mlx::compress {
namespace {

using graph::Attrs;
using graph::DType;
using graph::EightBits;
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Op;
using graph::Tensor;
using graph::Tensors;
using graph::ValueId;

EightBits eight_bits(const Node& node) {
  return graph::op_def(node.op).eight_bits;
}

// True for a layer whose weights become int8. Weights that a second node reads stay f32: the head of a language model
// may share those of its embedding.
bool is_layer(const Graph& graph, const Node& node) {
  if (eight_bits(node) != EightBits::kLayer) return false;
  const ValueId weights = node.inputs[1];
  const auto reads = [&](const Node& other) { return std::ranges::find(other.inputs, weights) != other.inputs.end(); };
  const graph::Role role = graph.value(weights).role;
  const bool kept = role == graph::Role::kParameter || role == graph::Role::kConstant;
  return kept && graph.value(weights).dtype == DType::kF32 && std::ranges::count_if(graph.nodes, reads) == 1;
}

const Node* producer(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes)
    if (std::ranges::find(node.outputs, value) != node.outputs.end()) return &node;
  return nullptr;
}

// True if every node that reads `value` can take int8.
bool only_read_as_int8(const Graph& graph, ValueId value) {
  if (std::ranges::find(graph.outputs, value) != graph.outputs.end()) return false;
  bool read = false;
  for (const Node& node : graph.nodes) {
    const auto at = std::ranges::find(node.inputs, value);
    if (at == node.inputs.end()) continue;
    read = true;
    const bool passes = eight_bits(node) == EightBits::kKeepsScale;
    const bool takes = eight_bits(node) == EightBits::kGivesF32 || (is_layer(graph, node) && at == node.inputs.begin());
    if (!takes && !(passes && only_read_as_int8(graph, node.outputs[0]))) return false;
  }
  return read;
}

// Quantizes w[O, …] to s8 with one scale for each row: the largest magnitude becomes 127.
void quantize_rows(const Tensor& w, Tensor& stored, Tensor& scales) {
  stored = w;
  stored.shape.dtype = DType::kS8;
  stored.data.resize(stored.shape.bytes());
  const std::int64_t rows = w.shape.dims[0];
  scales = graph::new_tensor(DType::kF32, {rows});
  const std::int64_t width = rows == 0 ? 0 : w.shape.count() / rows;
  const auto* from = reinterpret_cast<const float*>(w.data.data());
  auto* to = reinterpret_cast<std::int8_t*>(stored.data.data());
  auto* scale = reinterpret_cast<float*>(scales.data.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    float largest = 0;
    for (std::int64_t i = 0; i < width; ++i) largest = std::max(largest, std::fabs(from[row * width + i]));
    scale[row] = largest > 0 ? largest / 127.0f : 1.0f;
    for (std::int64_t i = 0; i < width; ++i) {
      const float steps = std::nearbyint(from[row * width + i] / scale[row]);
      to[row * width + i] = static_cast<std::int8_t>(std::clamp(steps, -127.0f, 127.0f));
    }
  }
}

class Quantizer {
 public:
  Quantizer(const Graph& from, const Tensors& tensors, const Tensors& ranges)
      : from_(from), tensors_(tensors), ranges_(ranges), places_(from.values.size()) {
    out_.graph.symbols = from.symbols;
  }

  Quantized run() {
    for (const ValueId input : from_.inputs) {
      const graph::Value& v = from_.value(input);
      place(input).f32 = out_.graph.input(v.name, v.dtype, v.dims);
    }
    for (const Node& node : from_.nodes) {
      if (is_layer(from_, node))
        layer(node);
      else if (eight_bits(node) == EightBits::kKeepsScale)
        pass_on(node);
      else if (eight_bits(node) == EightBits::kGivesF32)
        take(node);
      else
        copy(node);
    }
    for (const ValueId output : from_.outputs) out_.graph.outputs.push_back(as_f32(output));
    out_.graph = graph::remove_dead(out_.graph);  // also the indices that max pooling keeps for backward
    graph::validate(out_.graph);
    return std::move(out_);
  }

 private:
  struct Place {
    ValueId f32 = kNone, int8 = kNone;
    float scale = 1;
    DType dtype = DType::kS8;
  };

  Place& place(ValueId value) { return places_[static_cast<std::size_t>(value)]; }

  float scale_of(ValueId value, DType dtype) const {
    const std::string& name = from_.value(value).name;
    const auto found = ranges_.find(name);
    if (found == ranges_.end() || found->second.data.size() != sizeof(float))
      fail(ErrorKind::kUsage, "no calibrated range for '{}'", name);
    float range = 0;
    std::memcpy(&range, found->second.data.data(), sizeof range);
    return range / (dtype == DType::kU8 ? 255.0f : 127.0f);
  }

  ValueId as_int8(ValueId value) {
    Place& p = place(value);
    if (p.int8 == kNone) {
      p.dtype = is_unsigned(from_, value) ? DType::kU8 : DType::kS8;
      p.scale = scale_of(value, p.dtype);
      Attrs attrs;
      attrs.output = p.dtype;
      attrs.scale_y = p.scale;
      p.int8 = out_.graph.add(Op::kQuantize, attrs, {as_f32(value)}, from_.value(value).name + ".quantize")[0];
    }
    return p.int8;
  }

  // Also adds the parameters, states and constants of nodes that stay in f32.
  ValueId as_f32(ValueId value) {
    if (value == kNone) return kNone;
    Place& p = place(value);
    if (p.f32 != kNone) return p.f32;
    const graph::Value& v = from_.value(value);
    if (p.int8 != kNone) {
      Attrs attrs;
      attrs.scale_x = p.scale;
      p.f32 = out_.graph.add(Op::kDequantize, attrs, {p.int8}, v.name + ".dequantize")[0];
      return p.f32;
    }
    if (v.role == graph::Role::kParameter)
      p.f32 = out_.graph.parameter(v.name, v.dims, v.dtype);
    else if (v.role == graph::Role::kState)
      p.f32 = out_.graph.state(v.name, v.dims, v.dtype);
    else if (v.role == graph::Role::kConstant)
      p.f32 = out_.graph.constant(v.name, v.dims, v.dtype);
    CHECK(p.f32 != kNone);
    const auto found = tensors_.find(v.name);
    if (found != tensors_.end()) out_.tensors.insert(*found);
    return p.f32;
  }

  // Values keep their names, because a node's name may also be a value's.
  std::vector<ValueId> add(const Node& node, const Attrs& attrs, const std::vector<ValueId>& inputs) {
    const graph::Value& first = from_.value(node.outputs[0]);
    std::vector<ValueId> outputs = out_.graph.add_shaped(node.op, attrs, inputs, first.dims, first.name);
    out_.graph.nodes.back().name = node.name;
    return outputs;
  }

  void layer(const Node& node) {
    const ValueId x = as_int8(node.inputs[0]);
    const graph::Value& weight = from_.value(node.inputs[1]);
    const auto stored = tensors_.find(weight.name);
    if (stored == tensors_.end()) fail(ErrorKind::kCorrupt, "the model has no weights '{}'", weight.name);
    const std::string scales_name = weight.name + "_scale";
    quantize_rows(stored->second, out_.tensors[weight.name], out_.tensors[scales_name]);
    const ValueId w = out_.graph.parameter(weight.name, weight.dims, DType::kS8);
    const ValueId scales = out_.graph.constant(scales_name, {weight.dims[0]}, DType::kF32);
    const ValueId bias = node.inputs.size() > 2 ? as_f32(node.inputs[2]) : kNone;

    const ValueId y = node.outputs[0];
    Place& result = place(y);
    Attrs attrs = node.attrs;
    attrs.scale_x = place(node.inputs[0]).scale;
    if (only_read_as_int8(from_, y)) {
      result.dtype = attrs.output = is_unsigned(from_, y) ? DType::kU8 : DType::kS8;
      result.scale = attrs.scale_y = scale_of(y, result.dtype);
      result.int8 = add(node, attrs, {x, w, bias, scales})[0];
    } else {
      attrs.output = DType::kF32;
      result.f32 = add(node, attrs, {x, w, bias, scales})[0];
    }
  }

  void pass_on(const Node& node) {
    const Place x = place(node.inputs[0]);
    Place& result = place(node.outputs[0]);
    const ValueId input = x.int8 != kNone ? x.int8 : as_f32(node.inputs[0]);
    const ValueId y = add(node, node.attrs, {input})[0];
    if (x.int8 != kNone) {
      result = {kNone, y, x.scale, x.dtype};
    } else {
      result.f32 = y;
    }
  }

  void take(const Node& node) {
    const Place x = place(node.inputs[0]);
    if (x.int8 == kNone) return copy(node);
    Attrs attrs = node.attrs;
    attrs.scale_x = x.scale;
    place(node.outputs[0]).f32 = add(node, attrs, {x.int8})[0];
  }

  void copy(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(as_f32(input));
    const std::vector<ValueId> outputs = add(node, node.attrs, inputs);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNone) place(node.outputs[i]).f32 = outputs.at(i);
  }

  const Graph& from_;
  const Tensors& tensors_;
  const Tensors& ranges_;
  std::vector<Place> places_;
  Quantized out_;
};

}  // namespace

bool is_unsigned(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  if (node == nullptr) return false;
  const bool layer = eight_bits(*node) == EightBits::kLayer;
  if (!layer && eight_bits(*node) != EightBits::kRefused) return is_unsigned(graph, node->inputs[0]);
  const auto rectifies = [](graph::Activation activation) {
    return activation == graph::Activation::kRelu || activation == graph::Activation::kRelu6;
  };
  return rectifies(graph::op_def(node->op).activation) || rectifies(node->attrs.activation);
}

std::vector<ValueId> values_to_quantize(const Graph& graph) {
  std::vector<ValueId> out;
  const auto once = [&](ValueId value) {
    if (std::ranges::find(out, value) == out.end()) out.push_back(value);
  };
  for (const Node& node : graph.nodes) {
    if (!is_layer(graph, node)) continue;
    once(node.inputs[0]);
    once(node.outputs[0]);
  }
  return out;
}

Quantized quantize_graph(const Graph& fused, const Tensors& tensors, const Tensors& ranges) {
  return Quantizer(fused, tensors, ranges).run();
}

}  // namespace mlx::compress
