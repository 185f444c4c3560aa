// The graph part of model.json (mlx-format-model(5)): values and nodes by name, sizes as numbers or symbols' names,
// attributes only where they are not the default. Reading trusts nothing: what it returns was validated.

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "graph/graph.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

constexpr std::int64_t kMaxAttr = std::int64_t{1} << 40;
constexpr std::size_t kMaxNames = 1 << 20;

const char* const kRoles[] = {"activation", "input", "parameter", "state", "constant"};
const char* const kActivations[] = {"none", "relu", "gelu", "relu6"};
const DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kS32, DType::kS8, DType::kU8, DType::kI64};

// The shortest decimal that is this float again, as a double: 0.1f stands as 0.1.
double shortest(float value) {
  char text[64];
  *std::to_chars(text, text + sizeof(text) - 1, value).ptr = '\0';
  const double parsed = std::strtod(text, nullptr);
  return static_cast<float>(parsed) == value ? parsed : static_cast<double>(value);
}

// One list of the attributes for writing and reading: `visit(key, member)`.
template <typename AttrsType, typename Visitor>
void each_attr(AttrsType& attrs, Visitor&& visit) {
  visit("kernel", attrs.kernel);
  visit("stride", attrs.stride);
  visit("pad", attrs.pad);
  visit("groups", attrs.groups);
  visit("heads", attrs.heads);
  visit("axis", attrs.axis);
  visit("epsilon", attrs.epsilon);
  visit("momentum", attrs.momentum);
  visit("rate", attrs.rate);
  visit("beta1", attrs.beta1);
  visit("beta2", attrs.beta2);
  visit("weight_decay", attrs.weight_decay);
  visit("scale_x", attrs.scale_x);
  visit("scale_y", attrs.scale_y);
  visit("nesterov", attrs.nesterov);
  visit("stream", attrs.stream);
  visit("scale_a", attrs.scale_a);
  visit("scale_b", attrs.scale_b);
  visit("clip", attrs.clip);
  visit("kv_heads", attrs.kv_heads);
  visit("theta", attrs.theta);
  visit("whole_example", attrs.whole_example);
  visit("delta", attrs.delta);
  visit("tf32", attrs.tf32);
  visit("pre_output", attrs.pre_output);
}

struct Writer {
  Json& out;
  void put(const char* key, float value) { out[key] = shortest(value); }
  void put(const char* key, bool value) { out[key] = value; }
  void put(const char* key, std::int64_t value) { out[key] = value; }
  void put(const char* key, std::uint64_t value) { out[key] = value; }
  template <std::size_t kCount>
  void put(const char* key, const std::array<std::int64_t, kCount>& value) {
    out[key] = value;
  }
};

Json attrs_to_json(const Attrs& attrs) {
  Json out = Json::object();
  if (attrs.activation != Activation::kNone) out["activation"] = kActivations[static_cast<int>(attrs.activation)];
  if (attrs.output != DType::kF32) out["output"] = kernels::name_of(attrs.output);
  Writer writer{out};
  const Attrs defaults;
  each_attr(attrs, [&](const char* key, const auto& value) {
    bool is_default = false;
    each_attr(defaults, [&](const char* other, const auto& standard) {
      if constexpr (std::is_same_v<decltype(value), decltype(standard)>) {
        if (std::string_view(key) == other) is_default = value == standard;
      }
    });
    if (!is_default) writer.put(key, value);
  });
  return out;
}

struct Reader {
  const Json& in;
  const std::string& what;
  std::size_t found = 0;

  std::int64_t integer(const Json& value, const char* key) const {
    if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() > static_cast<double>(kMaxAttr)) {
      fail(ErrorKind::kCorrupt, "{}: '{}' must be an integer from 0 to {}", what, key, kMaxAttr);
    }
    return value.get<std::int64_t>();
  }
  void get(const Json& value, const char* key, std::int64_t& to) { to = integer(value, key); }
  void get(const Json& value, const char* key, std::uint64_t& to) {
    if (!value.is_number_unsigned()) fail(ErrorKind::kCorrupt, "{}: '{}' must be an integer", what, key);
    to = value.get<std::uint64_t>();
  }
  void get(const Json& value, const char* key, bool& to) {
    if (!value.is_boolean()) fail(ErrorKind::kCorrupt, "{}: '{}' must be true or false", what, key);
    to = value.get<bool>();
  }
  void get(const Json& value, const char* key, float& to) {
    if (!value.is_number() ||
        !(std::abs(value.get<double>()) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      fail(ErrorKind::kCorrupt, "{}: '{}' must be a number that fits f32", what, key);
    }
    to = static_cast<float>(value.get<double>());
  }
  template <std::size_t kCount>
  void get(const Json& value, const char* key, std::array<std::int64_t, kCount>& to) {
    if (!value.is_array() || value.size() != kCount)
      fail(ErrorKind::kCorrupt, "{}: '{}' must be {} integers", what, key, kCount);
    for (std::size_t i = 0; i < kCount; ++i) to[i] = integer(value[i], key);
  }
};

// Where `text` stands in `words`; kCorrupt naming it where it does not.
template <std::size_t kCount>
std::size_t one_of(const std::string& text, const char* const (&words)[kCount], std::string_view what) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (text == words[i]) return i;
  }
  fail(ErrorKind::kCorrupt, "{}: unknown word '{}'", what, text);
}

DType dtype_named(const std::string& name, std::string_view what) {
  for (const DType dtype : kDTypes) {
    if (name == kernels::name_of(dtype)) return dtype;
  }
  fail(ErrorKind::kCorrupt, "{}: unknown dtype '{}'", what, name);
}

Attrs attrs_from_json(const Json& json, const std::string& what) {
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: 'attrs' must be an object", what);
  Attrs attrs;
  Reader reader{json, what};
  std::size_t known = 0;
  if (json.contains("activation")) {
    attrs.activation = static_cast<Activation>(one_of(json_string(json, "activation", what), kActivations, what));
    ++known;
  }
  if (json.contains("output")) {
    attrs.output = dtype_named(json_string(json, "output", what), what);
    ++known;
  }
  each_attr(attrs, [&](const char* key, auto& value) {
    const auto at = json.find(key);
    if (at == json.end()) return;
    reader.get(*at, key, value);
    ++known;
  });
  if (known != json.size()) {
    for (const auto& item : json.items()) {
      const std::string& key = item.key();
      bool is_known = key == "activation" || key == "output";
      each_attr(attrs, [&](const char* other, auto&) { is_known = is_known || key == other; });
      if (!is_known) fail(ErrorKind::kCorrupt, "{}: unknown attribute '{}'", what, key);
    }
    fail(ErrorKind::kCorrupt, "{}: an attribute stands there twice", what);
  }
  return attrs;
}

using Names = std::unordered_map<std::string, ValueId>;

ValueId value_named(const Json& json, const Names& names, const std::string& what) {
  if (json.is_null()) return kNone;
  if (!json.is_string()) fail(ErrorKind::kCorrupt, "{}: a value's name must be a string", what);
  const auto found = names.find(json.get_ref<const std::string&>());
  if (found == names.end()) fail(ErrorKind::kCorrupt, "{}: there is no value '{}'", what, json.get<std::string>());
  return found->second;
}

std::vector<ValueId> values_named(const Json& json, const char* key, const Names& names, const std::string& what) {
  std::vector<ValueId> ids;
  for (const Json& name : json_array(json, key, what)) ids.push_back(value_named(name, names, what));
  return ids;
}

Json names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  Json names = Json::array();
  for (const ValueId id : ids) names.push_back(id == kNone ? Json() : Json(graph.value(id).name));
  return names;
}

Value value_from_json(const Json& json, const Graph& graph, std::string_view what) {
  Value value;
  value.name = json_string(json, "name", what);
  const std::string where = fmt::format("{}: value '{}'", what, value.name);
  if (json.contains("dtype")) value.dtype = dtype_named(json_string(json, "dtype", where), where);
  if (json.contains("role")) value.role = static_cast<Role>(one_of(json_string(json, "role", where), kRoles, where));
  for (const Json& size : json_array(json, "dims", where)) {
    if (size.is_string()) {
      int symbol = -1;
      for (std::size_t i = 0; i < graph.symbols.size(); ++i) {
        if (size.get_ref<const std::string&>() == graph.symbols[i]) symbol = static_cast<int>(i);
      }
      if (symbol < 0) fail(ErrorKind::kCorrupt, "{}: unknown symbol '{}'", where, size.get<std::string>());
      value.dims.push_back(Dim::sym(symbol));
    } else {
      const Reader reader{json, where};
      value.dims.push_back(Dim::of(reader.integer(size, "dims")));
    }
  }
  return value;
}

Node node_from_json(const Json& json, const Names& names, std::string_view what) {
  Node node;
  node.name = json_string(json, "name", what);
  const std::string where = fmt::format("{}: node '{}'", what, node.name);
  const std::string op = json_string(json, "op", where);
  node.op = op_named(op);
  if (node.op == Op::kCount) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: unknown operation '{}'", where, op),
                "a newer mlx may have written it");
  }
  node.inputs = values_named(json, "inputs", names, where);
  node.outputs = values_named(json, "outputs", names, where);
  if (json.contains("attrs")) node.attrs = attrs_from_json(json["attrs"], where);
  return node;
}

}  // namespace

Json to_json(const Graph& graph) {
  Json out = Json::object();
  out["symbols"] = graph.symbols;
  out["inputs"] = names_of(graph, graph.inputs);
  out["outputs"] = names_of(graph, graph.outputs);
  Json& values = out["values"] = Json::array();
  for (const Value& value : graph.values) {
    Json item = Json::object();
    item["name"] = value.name;
    if (value.role != Role::kActivation) item["role"] = kRoles[static_cast<int>(value.role)];
    if (value.dtype != DType::kF32) item["dtype"] = kernels::name_of(value.dtype);
    Json& dims = item["dims"] = Json::array();
    for (const Dim dim : value.dims) {
      dims.push_back(dim.symbolic() ? Json(graph.symbols[static_cast<std::size_t>(dim.symbol)]) : Json(dim.size));
    }
    values.push_back(std::move(item));
  }
  Json& nodes = out["nodes"] = Json::array();
  for (const Node& node : graph.nodes) {
    Json item = Json::object();
    item["name"] = node.name;
    item["op"] = kernels::name_of(node.op);
    item["inputs"] = names_of(graph, node.inputs);
    item["outputs"] = names_of(graph, node.outputs);
    if (Json attrs = attrs_to_json(node.attrs); !attrs.empty()) item["attrs"] = std::move(attrs);
    nodes.push_back(std::move(item));
  }
  return out;
}

Graph graph_from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: the graph must be an object", what);
  Graph graph;
  for (const Json& symbol : json_array(json, "symbols", what)) {
    if (!symbol.is_string() || graph.symbols.size() >= 64) {
      fail(ErrorKind::kCorrupt, "{}: symbols must be at most 64 strings", what);
    }
    graph.symbols.push_back(symbol.get<std::string>());
  }
  Names names;
  for (const Json& item : json_array(json, "values", what)) {
    if (graph.values.size() >= kMaxNames) fail(ErrorKind::kCorrupt, "{}: too many values", what);
    graph.values.push_back(value_from_json(item, graph, what));
    names.emplace(graph.values.back().name, static_cast<ValueId>(graph.values.size() - 1));
  }
  for (const Json& item : json_array(json, "nodes", what)) graph.nodes.push_back(node_from_json(item, names, what));
  const std::string where(what);
  graph.inputs = values_named(json, "inputs", names, where);
  graph.outputs = values_named(json, "outputs", names, where);
  try {
    validate(graph);
  } catch (const Error& error) {
    fail(ErrorKind::kCorrupt, "{}: {}", what, error.message);
  }
  return graph;
}

}  // namespace mlx::graph
