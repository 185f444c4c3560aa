// What a model takes over from the model that it starts from.

#include "nn/finetune.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"
#include "nn/groups.h"

namespace mlx::nn {
namespace {

using graph::Graph;
using graph::Role;
using graph::ValueId;

// Every value gets the location `line`, where the config names the base.
TomlNode toml_of(const Json& json, int line) {
  TomlNode node;
  node.line = line;
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) node.members.push_back({key, toml_of(value, line)});
  } else if (json.is_array()) {
    node.kind = TomlNode::Kind::kArray;
    node.items.reserve(json.size());
    for (const Json& item : json) node.items.push_back(toml_of(item, line));
  } else if (json.is_string()) {
    node.kind = TomlNode::Kind::kString;
    node.text = json.get<std::string>();
  } else if (json.is_boolean()) {
    node.kind = TomlNode::Kind::kBoolean;
    node.boolean = json.get<bool>();
  } else if (json.is_number_integer()) {
    node.kind = TomlNode::Kind::kInteger;
    node.integer = json.get<std::int64_t>();
    node.number = static_cast<double>(node.integer);
  } else {
    node.kind = json.is_number() ? TomlNode::Kind::kFloat : TomlNode::Kind::kOther;
    if (json.is_number()) node.number = json.get<double>();
  }
  return node;
}

const TomlNode* member(const TomlNode& table, std::string_view key) {
  const auto found = std::ranges::find(table.members, key, &TomlNode::Member::first);
  return found == table.members.end() ? nullptr : &found->second;
}

bool is_parameter(const Graph& graph, ValueId id) {
  return id != graph::kNone && graph.value(id).role == Role::kParameter;
}

// True if the node reads parameters that are initialised as weights; its result depends on them.
bool reads_weights(const Graph& graph, const graph::Node& node) {
  const auto start = graph::op_def(node.op).start;
  for (std::size_t i = 0; start && i < node.inputs.size(); ++i) {
    if (!is_parameter(graph, node.inputs[i])) continue;
    if (start(node, i, graph::concrete(graph.value(node.inputs[i]), {})).kind == graph::StartValue::kWeights)
      return true;
  }
  return false;
}

// The nodes from the output back to the last layer with weights, without side branches: an outside graph may add the
// bias after the product.
std::set<const graph::Node*> last_layer(const Graph& graph) {
  std::set<const graph::Node*> layer;
  ValueId id = graph.outputs.at(0);
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::ranges::find(node->outputs, id) == node->outputs.end()) continue;
    layer.insert(&*node);
    if (reads_weights(graph, *node)) break;
    const auto computed = [&](ValueId each) {
      return each != graph::kNone && graph.value(each).role == Role::kActivation;
    };
    const auto before = std::ranges::find_if(node->inputs, computed);
    if (before == node->inputs.end() || std::ranges::count_if(node->inputs, computed) > 1) break;
    id = *before;
  }
  return layer;
}

// Parameters that only the last layer reads.
std::set<std::string> head_of(const Graph& graph) {
  std::set<std::string> head;
  std::set<ValueId> elsewhere;
  const std::set<const graph::Node*> last = last_layer(graph);
  for (const graph::Node& node : graph.nodes) {
    if (last.contains(&node)) continue;
    elsewhere.insert(node.inputs.begin(), node.inputs.end());
  }
  for (const graph::Node* node : last) {
    for (const ValueId id : node->inputs) {
      if (is_parameter(graph, id) && !elsewhere.contains(id)) head.insert(graph.value(id).name);
    }
  }
  return head;
}

std::string text_of(const kernels::Shape& shape) {
  std::string text = shape.dtype == kernels::DType::kF32 ? "[" : std::string(kernels::name_of(shape.dtype)) + "[";
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.rank); ++i)
    text += fmt::format("{}{}", i > 0 ? "," : "", shape.dims[i]);
  return text + "]";
}

bool is_adapter(const std::string& name) {
  return name.ends_with(graph::kLoraA) || name.ends_with(graph::kLoraB);
}

}  // namespace

void check_base(const Model& base, bool lora) {
  if (base.precision == "f32" || (lora && has_groups(base.graph))) return;
  throw Error(ErrorKind::kUsage, fmt::format("it is {} and cannot be trained", base.precision),
              has_groups(base.graph) ? "start from the f32 version that it was made from, or train adapters: lora = {}"
                                     : "start from the f32 version that it was made from");
}

TomlNode with_base_config(const TomlNode& model, const Model& base) {
  if (member(model, "family")) return model;
  TomlNode table = model;
  const TomlNode* const init = member(model, "init");
  const TomlNode whole = toml_of(parse_json(base.config, "the base's config"), init ? init->line : model.line);
  for (const TomlNode::Member& own : whole.members) {
    // The data determines the vocabulary, and each training chooses what it trains.
    const bool of_this_training = own.first == "freeze" || own.first == "lora" || own.first == "vocabulary";
    if (!of_this_training && !member(model, own.first)) table.members.push_back(own);
  }
  return table;
}

FinetuneStart start_from(const Built& built, const std::vector<std::string>& labels, Model base, std::uint64_t seed) {
  check_base(base, built.lora);
  base = merged(std::move(base));
  FinetuneStart start;
  start.tensors = initialize(built, seed);
  const std::set<std::string> head = labels == base.labels ? std::set<std::string>{} : head_of(built.graph);
  std::string misfits;
  std::size_t taken = 0;
  for (auto& [name, tensor] : start.tensors) {
    const auto found = base.weights->find(name);
    if (built.lora && is_adapter(name)) continue;
    if (!found || head.contains(name)) {
      start.fresh.push_back(name);
    } else if (found->shape() != tensor.shape) {
      misfits += fmt::format("{}'{}' is {} there and {} here", misfits.empty() ? "" : ", ", name,
                             text_of(found->shape()), text_of(tensor.shape));
    } else {
      tensor = base.weights->tensor(name);
      ++taken;
    }
  }
  if (!misfits.empty()) fail(ErrorKind::kUsage, "its weights do not fit: {}", misfits);
  if (built.lora && !start.fresh.empty()) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("it lacks '{}', which would keep its random values: lora trains adapters only", start.fresh[0]),
        "leave out what differs from the base, or train without lora");
  }
  if (taken == 0) fail(ErrorKind::kUsage, "it has none of this model's tensors");
  return start;
}

}  // namespace mlx::nn
