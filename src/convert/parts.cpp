// The graph of the architecture is built again, as an import builds it: it says what each parameter was made of, and
// the model's own graph must be the same.

#include "convert/parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "convert/decoder_config_json.h"
#include "graph/passes/passes.h"
#include "kernels/half.h"
#include "nn/decoder_graph.h"
#include "nn/gguf_model.h"

namespace mlx::convert {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using kernels::DType;
using WeightPtr = std::shared_ptr<const graph::Weight>;

WeightPtr weight_of(const nn::Model& model, const std::string& name) {
  const auto& all = model.weights->all();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

[[noreturn]] void not_in_groups(const std::string& name, const std::string& precision) {
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{} is {} with ranges of its activations, which other programs have no form for", name, precision),
      "export the version that it was made from, or one that `mlx quantize --group` makes");
}

// The names of a node's inputs that are not its weights.
std::vector<std::string> names_of_inputs(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (const graph::ValueId id : node.inputs) {
    if (id == graph::kNone || graph.value(id).role == graph::Role::kParameter) continue;
    names.push_back(graph.value(id).name);
  }
  return names;
}

bool same_nodes(const Graph& graph, const Node& node, const Graph& expected, const Node& as) {
  const bool grouped = node.op == Op::kLinearGroups && as.op == Op::kLinear;
  const bool in_blocks = (node.op == Op::kLinearBlocks && as.op == Op::kLinear) ||
                         (node.op == Op::kEmbeddingBlocks && as.op == Op::kEmbedding);
  graph::Attrs attrs = node.attrs;
  attrs.blocks = attrs.block_rows = {};
  // Training on shorter texts changes the context, but not how many positions can be turned.
  if (node.op == Op::kRope && attrs.axis > as.attrs.axis) attrs.axis = as.attrs.axis;
  return (node.op == as.op || grouped || in_blocks) && node.name == as.name && attrs == as.attrs &&
         names_of_inputs(graph, node) == names_of_inputs(expected, as);
}

// Another program computes what the architecture says, so the model must do so too.
void check_graph(const nn::Model& model, const Graph& expected, const std::string& name) {
  const Graph graph = graph::to_inference(model.graph);
  const auto same = [&](const Node& node, const Node& as) { return same_nodes(graph, node, expected, as); };
  if (std::ranges::equal(graph.nodes, expected.nodes, same)) return;
  if (model.precision != "f32" && nn::precision_of(graph) == "f32") not_in_groups(name, model.precision);
  fail(ErrorKind::kCorrupt, "{}: its graph is not the one that its config.json describes", name);
}

// The layer that a parameter is the weight of.
std::string layer_of(const Graph& graph, const std::string& parameter) {
  const graph::ValueId id = graph.find(parameter);
  for (const Node& node : graph.nodes)
    if (node.op == Op::kLinear && node.inputs[1] == id) return node.name;
  return {};
}

// The parts of a parameter in blocks. Each lies within one run of rows of a type.
void add_parts_in_blocks(const nn::Model& model, const nn::ParameterSource& source, Part part,
                         std::vector<Part>& parts) {
  const graph::ValueId id = model.graph.find(part.parameter + nn::kBlocksSuffix);
  const auto reads = [&](const Node& node) { return node.inputs.size() > 1 && node.inputs[1] == id; };
  const auto node = std::ranges::find_if(model.graph.nodes, reads);
  const graph::Attrs attrs = node == model.graph.nodes.end() ? graph::Attrs{} : node->attrs;
  ByteView left = part.weight->data();
  std::size_t run = 0;
  std::int64_t used = 0;  // rows of it
  for (const nn::ParameterSource::Part& of : source.parts) {
    part.name = of.name, part.shape = of.shape;
    if (run < static_cast<std::size_t>(attrs.blocks.count) && used == attrs.block_rows.at.at(run)) ++run, used = 0;
    const bool there = run < static_cast<std::size_t>(attrs.blocks.count);
    part.blocks = there ? kernels::find_block_type(attrs.blocks.at.at(run)) : nullptr;
    const auto bytes = static_cast<std::size_t>(part.blocks ? part.rows() * part.row_bytes() : 0);
    if (!part.blocks || part.width() % part.blocks->weights != 0 || used + part.rows() > attrs.block_rows.at.at(run) ||
        bytes > left.size())
      fail(ErrorKind::kCorrupt, "the tensor '{}' has other blocks than '{}' needs", part.parameter, part.name);
    part.block_rows = left.first(bytes);
    left = left.subspan(bytes), used += part.rows();
    parts.push_back(part);
  }
}

// The parameter's parts in their order.
void add_parts(const nn::Model& model, const std::string& name, const std::string& layer,
               const nn::ParameterSource& source, std::vector<Part>& parts) {
  Part part{{}, name, {}, weight_of(model, name)};
  if (WeightPtr blocks = weight_of(model, name + nn::kBlocksSuffix); blocks && !part.weight) {
    part.weight = std::move(blocks);
    return add_parts_in_blocks(model, source, std::move(part), parts);
  }
  if (!part.weight) {
    part.weight = weight_of(model, layer + ".groups");
    part.scales = weight_of(model, layer + ".groups.scales");
    if (!part.weight || !part.scales) fail(ErrorKind::kCorrupt, "the tensor '{}' is missing", name);
  }
  part.transposed = source.transposed, part.plus_one = source.plus_one;
  const kernels::Shape& shape = part.weight->shape();
  for (const nn::ParameterSource::Part& of : source.parts) {
    part.name = of.name, part.shape = of.shape;
    const std::int64_t columns = shape.rank < 2 ? 1 : shape.dims[1];
    if (part.row + part.rows() > shape.dims[0] || part.width() != columns * (part.four_bits() ? 2 : 1))
      fail(ErrorKind::kCorrupt, "the tensor '{}' has another shape than '{}' needs", name, of.name);
    parts.push_back(part);
    part.row += part.rows();
  }
}

// Calls take(at, number) for all numbers of a row of floats.
template <typename Take>
void each_float(const Part& part, std::int64_t row, Take take) {
  const auto first = static_cast<std::size_t>((part.row + row) * part.width());
  const std::uint8_t* const data = part.weight->data().data();
  const auto all = [&]<typename T>(const T* from) {
    for (std::int64_t i = 0; i < part.width(); ++i) take(i, kernels::widen(from[i]));
  };
  switch (part.weight->shape().dtype) {
    case DType::kF16:
      return all(reinterpret_cast<const kernels::F16*>(data) + first);
    case DType::kBF16:
      return all(reinterpret_cast<const kernels::BF16*>(data) + first);
    default:
      return all(reinterpret_cast<const float*>(data) + first);
  }
}

void read_numbers(const Part& part, std::int64_t row, float* to) {
  if (part.blocks)
    return kernels::expand_blocks(*part.blocks, part.block_rows.data() + row * part.row_bytes(),
                                  part.width() / part.blocks->weights, to);
  if (!part.scales) return each_float(part, row, [&](std::int64_t i, float x) { to[i] = part.plus_one ? x - 1 : x; });
  const GroupedRow grouped = grouped_row(part, row);
  for (std::int64_t i = 0; i < part.width(); ++i) {
    const auto group = static_cast<std::size_t>(i / part.group());
    to[i] = static_cast<float>(grouped.integers[static_cast<std::size_t>(i)]) *
            kernels::widen(kernels::F16{grouped.scales[group]});
  }
}

void put_number(float x, DType as, std::uint8_t* to) {
  if (as == DType::kF32) {
    std::memcpy(to, &x, sizeof x);
  } else {
    const std::uint16_t bits = as == DType::kF16 ? kernels::to_f16(x).bits : kernels::to_bf16(x).bits;
    std::memcpy(to, &bits, sizeof bits);
  }
}

float narrowed(float x, DType as) {
  if (as == DType::kF16) return kernels::widen(kernels::to_f16(x));
  return as == DType::kBF16 ? kernels::widen(kernels::to_bf16(x)) : x;
}

// A head in groups was rounded apart from the embedding, or the embedding holds its numbers, as out of a GGUF file.
void untie(Decoder& decoder) {
  Part& embedding = decoder.parts.front();
  const Part& head = decoder.parts.back();
  if (rows_of(embedding, DType::kF32) == rows_of(head, DType::kF32)) {
    embedding.weight = head.weight, embedding.scales = head.scales;
    embedding.blocks = head.blocks, embedding.block_rows = head.block_rows;
    decoder.parts.pop_back();
  } else {
    decoder.config.tie = false;
    decoder.config_json = with_own_head(decoder.config_json);
  }
}

}  // namespace

Decoder decoder_of(const nn::Model& model, const std::string& prefix, const std::string& name) {
  Decoder out;
  out.config_json = config_json_of(model, name);
  const std::string what = name + ": config.json";
  out.config = nn::read_decoder_config(out.config_json, context_of(model), what);
  const nn::OutsideGraph decoder = nn::build_decoder(out.config, out.config.gpt2 ? prefix : "model.");
  check_graph(model, decoder.graph, name);
  for (const graph::Value& value : decoder.graph.values)
    if (value.role == graph::Role::kParameter)
      add_parts(model, value.name, layer_of(decoder.graph, value.name), decoder.sources.at(value.name), out.parts);
  const std::string head = decoder.graph.nodes[decoder.graph.nodes.size() - (out.config.logit_cap > 0 ? 2 : 1)].name;
  if (out.config.tie &&
      (weight_of(model, head + ".groups") || weight_of(model, head + ".weight" + nn::kBlocksSuffix))) {
    add_parts(model, head + ".weight", head, {{{"lm_head.weight", {out.config.vocabulary, out.config.width}}}},
              out.parts);
    untie(out);
  }
  return out;
}

DType own_type(const Part& part, DType usual) {
  if (part.scales || part.blocks) return DType::kF32;
  if (!part.plus_one) return part.weight->shape().dtype;
  bool same = true;
  for (std::int64_t row = 0; row < part.rows(); ++row)
    each_float(part, row, [&](std::int64_t, float x) { same &= 1 + narrowed(x - 1, usual) == x; });
  return same ? usual : DType::kF32;
}

Bytes rows_of(const Part& part, DType as, const std::function<std::int64_t(std::int64_t)>& order) {
  Bytes out(part.bytes(as));
  const std::size_t element = size_of(as), row_bytes = static_cast<std::size_t>(part.width()) * element;
  const bool copied = !part.scales && !part.blocks && !part.plus_one && part.weight->shape().dtype == as;
  std::vector<float> numbers(static_cast<std::size_t>(part.width()));
  for (std::int64_t row = 0; row < part.rows(); ++row) {
    std::uint8_t* const to = out.data() + static_cast<std::size_t>(order ? order(row) : row) * row_bytes;
    if (copied) {
      std::memcpy(to, part.weight->data().data() + static_cast<std::size_t>(part.row + row) * row_bytes, row_bytes);
      continue;
    }
    read_numbers(part, row, numbers.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (std::isfinite(numbers[i]) && !std::isfinite(narrowed(numbers[i], as)))
        throw Error(ErrorKind::kUsage,
                    fmt::format("'{}' has {}, which {} cannot hold", part.name, numbers[i], kernels::name_of(as)),
                    "--dtype f32 can");
      put_number(numbers[i], as, to + i * element);
    }
  }
  return out;
}

Bytes numbers_of(const Part& part, DType as) {
  Bytes rows = rows_of(part, as);
  if (!part.transposed) return rows;
  Bytes out(rows.size());
  const std::size_t element = size_of(as), count = static_cast<std::size_t>(part.rows()),
                    width = static_cast<std::size_t>(part.width());
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t i = 0; i < width; ++i)
      std::memcpy(out.data() + (i * count + row) * element, rows.data() + (row * width + i) * element, element);
  return out;
}

GroupedRow grouped_row(const Part& part, std::int64_t row) {
  const std::int64_t groups = part.scales->shape().dims[0], all_rows = part.scales->shape().dims[1];
  GroupedRow out;
  out.integers.resize(static_cast<std::size_t>(part.width()));
  const std::uint8_t* const from = part.weight->data().data() + (part.row + row) * part.weight->shape().dims[1];
  for (std::size_t i = 0; i < out.integers.size(); ++i) {
    constexpr int kOffset = 8;
    out.integers[i] = part.four_bits() ? static_cast<std::int8_t>((from[i / 2] >> (i % 2 * 4) & 15) - kOffset)
                                       : static_cast<std::int8_t>(from[i]);
  }
  for (std::int64_t group = 0; group < groups; ++group)
    out.scales.push_back(load_little_endian<std::uint16_t>(part.scales->data().data() +
                                                           static_cast<std::size_t>(group * all_rows + part.row + row) *
                                                               sizeof(std::uint16_t)));
  return out;
}

}  // namespace mlx::convert
