// The graph part of model.json (mlx-format-model(5)): values and nodes by name, sizes as numbers or symbols' names,
// attributes only if they differ from the default. Nothing that is read is trusted: the result has been validated.

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
constexpr const char* kSeePage = "`mlx help format-graph` lists the operations and their attributes";
constexpr std::size_t kMaxNodes = 1 << 15;  // passes look through all nodes for some

const char* const kRoles[] = {"activation", "input", "parameter", "state", "constant"};
// The words for enumerations, in their order.
const char* const kActivations[] = {"none", "relu", "gelu", "relu6"};
const char* const kArithmetics[] = {"add", "sub", "mul", "div", "max", "min", "pow"};
const char* const kReductions[] = {"sum", "mean", "max", "min"};
constexpr auto& words_of(Activation) {
  return kActivations;
}
constexpr auto& words_of(kernels::Arithmetic) {
  return kArithmetics;
}
constexpr auto& words_of(kernels::Reduction) {
  return kReductions;
}
const DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kS32, DType::kS8, DType::kU8, DType::kI64};

// The shortest decimal, as a double, that reads back as this float: 0.1f is written as 0.1.
double shortest(float value) {
  char text[64];
  *std::to_chars(text, text + sizeof(text) - 1, value).ptr = '\0';
  const double parsed = std::strtod(text, nullptr);
  return static_cast<float>(parsed) == value ? parsed : static_cast<double>(value);
}

// The list of attributes, for both writing and reading: `visit(key, member)`.
template <typename AttrsType, typename Visitor>
void each_attr(AttrsType& attrs, Visitor&& visit) {
  visit("activation", attrs.activation);
  visit("output", attrs.output);
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
  visit("slow", attrs.slow);
  visit("long_low", attrs.long_low);
  visit("long_high", attrs.long_high);
  visit("long_context", attrs.long_context);
  visit("ramp_begin", attrs.ramp_begin);
  visit("ramp_end", attrs.ramp_end);
  visit("window", attrs.window);
  visit("cap", attrs.cap);
  visit("whole_example", attrs.whole_example);
  visit("delta", attrs.delta);
  visit("tf32", attrs.tf32);
  visit("pre_output", attrs.pre_output);
  visit("axes", attrs.axes);
  visit("starts", attrs.starts);
  visit("ends", attrs.ends);
  visit("steps", attrs.steps);
  visit("arithmetic", attrs.arithmetic);
  visit("reduction", attrs.reduction);
  visit("keep_dims", attrs.keep_dims);
  visit("transpose_a", attrs.transpose_a);
  visit("transpose_b", attrs.transpose_b);
  visit("blocks", attrs.blocks);
  visit("block_rows", attrs.block_rows);
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
  void put(const char* key, const kernels::IntList& value) {
    out[key] = std::vector<std::int64_t>(value.at.begin(), value.at.begin() + value.count);
  }
  void put(const char* key, DType value) { out[key] = kernels::name_of(value); }
  template <typename Word>
  requires std::is_enum_v<Word>
  void put(const char* key, Word value) { out[key] = words_of(value)[static_cast<std::size_t>(value)]; }
};

Json attrs_to_json(const Attrs& attrs) {
  Json out = Json::object();
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

// The index of `text` in `words`. Throws kCorrupt naming it if it is not there.
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

struct Reader {
  const Json& in;
  const std::string& what;
  std::size_t found = 0;

  std::int64_t integer(const Json& value, const char* key, std::int64_t least = 0) const {
    if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
        value.get<double>() > static_cast<double>(kMaxAttr)) {
      fail(ErrorKind::kCorrupt, "{}: '{}' must be an integer from {} to {}", what, key, least, kMaxAttr);
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
  void get(const Json& value, const char* key, kernels::IntList& to) {
    if (!value.is_array() || value.size() > to.at.size())
      fail(ErrorKind::kCorrupt, "{}: '{}' must be at most {} integers", what, key, to.at.size());
    for (const Json& each : value) to.at[static_cast<std::size_t>(to.count++)] = integer(each, key, -kMaxAttr);
  }
  void get(const Json& value, const char* key, DType& to) { to = dtype_named(word(value, key), what); }
  template <typename Word>
  requires std::is_enum_v<Word>
  void get(const Json& value, const char* key, Word& to) {
    to = static_cast<Word>(one_of(word(value, key), words_of(to), what));
  }
  const std::string& word(const Json& value, const char* key) const {
    if (!value.is_string()) fail(ErrorKind::kCorrupt, "{}: '{}' must be a string", what, key);
    return value.get_ref<const std::string&>();
  }
};

Attrs attrs_from_json(const Json& json, const std::string& what) {
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: 'attrs' must be an object", what);
  Attrs attrs;
  Reader reader{json, what};
  std::size_t known = 0;
  each_attr(attrs, [&](const char* key, auto& value) {
    const auto at = json.find(key);
    if (at == json.end()) return;
    reader.get(*at, key, value);
    ++known;
  });
  if (known != json.size()) {
    for (const auto& item : json.items()) {
      const std::string& key = item.key();
      bool is_known = false;
      each_attr(attrs, [&](const char* other, auto&) { is_known = is_known || key == other; });
      if (!is_known) throw Error(ErrorKind::kCorrupt, fmt::format("{}: unknown attribute '{}'", what, key), kSeePage);
    }
    fail(ErrorKind::kCorrupt, "{}: an attribute occurs twice", what);
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

Dim symbol_named(const Json& name, const Graph& graph, const std::string& where) {
  for (std::size_t i = 0; name.is_string() && i < graph.symbols.size(); ++i) {
    if (name.get_ref<const std::string&>() == graph.symbols[i]) return Dim::sym(static_cast<int>(i));
  }
  fail(ErrorKind::kCorrupt, "{}: unknown symbol {}", where, name.dump());
}

// An array of the number, unless it is 0, and of the terms: [factor, symbol, symbol …].
Json terms_to_json(const Graph& graph, const Dim& dim) {
  Json terms = Json::array();
  if (dim.size != 0) terms.push_back({dim.size});
  for (const Dim::Term& term : dim.terms) {
    if (term.factor == 0) break;
    Json& item = terms.emplace_back(Json::array({term.factor}));
    for (const std::int16_t symbol : term.symbols)
      if (symbol >= 0) item.push_back(graph.symbols[static_cast<std::size_t>(symbol)]);
  }
  return terms;
}

Json dim_to_json(const Graph& graph, const Dim& dim) {
  if (!dim.symbolic()) return dim.size;
  if (dim.symbol() >= 0) return graph.symbols[static_cast<std::size_t>(dim.symbol())];
  return terms_to_json(graph, dim);
}

Dim dim_from_json(const Json& json, const Graph& graph, const std::string& where) {
  const Reader reader{json, where};
  if (json.is_string()) return symbol_named(json, graph, where);
  if (!json.is_array()) return Dim::of(reader.integer(json, "dims"));
  Dim sum;
  try {
    for (const Json& item : json) {
      if (!item.is_array() || item.empty()) fail(ErrorKind::kCorrupt, "{}: a size must be a sum of products", where);
      Dim term = Dim::of(reader.integer(item[0], "dims", -kMaxAttr));
      for (std::size_t i = 1; i < item.size(); ++i) term = term * symbol_named(item[i], graph, where);
      sum = sum + term;
    }
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kCorrupt) throw;
    fail(ErrorKind::kCorrupt, "{}: {}", where, error.message);
  }
  if (dim_to_json(graph, sum) != json) fail(ErrorKind::kCorrupt, "{}: a size is not in its normal form", where);
  return sum;
}

Value value_from_json(const Json& json, const Graph& graph, std::string_view what) {
  Value value;
  value.name = json_string(json, "name", what);
  const std::string where = fmt::format("{}: value '{}'", what, value.name);
  if (json.contains("dtype")) value.dtype = dtype_named(json_string(json, "dtype", where), where);
  if (json.contains("role")) value.role = static_cast<Role>(one_of(json_string(json, "role", where), kRoles, where));
  for (const Json& size : json_array(json, "dims", where)) value.dims.push_back(dim_from_json(size, graph, where));
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
                "a newer mlx may have written it; `mlx help format-graph` lists the operations of this one");
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
    for (const Dim& dim : value.dims) dims.push_back(dim_to_json(graph, dim));
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
  const Json& nodes = json_array(json, "nodes", what);
  if (nodes.size() > kMaxNodes) fail(ErrorKind::kCorrupt, "{}: more than {} nodes", what, kMaxNodes);
  for (const Json& item : nodes) graph.nodes.push_back(node_from_json(item, names, what));
  const std::string where(what);
  graph.inputs = values_named(json, "inputs", names, where);
  graph.outputs = values_named(json, "outputs", names, where);
  try {
    validate(graph);
  } catch (const Error& error) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: {}", what, error.message), kSeePage);
  }
  return graph;
}

std::vector<AttributeText> attribute_texts() {
  std::vector<AttributeText> texts;
  const Attrs defaults;
  Json written = Json::object();
  each_attr(defaults, [&](const char* key, const auto& value) {
    using Member = std::remove_cvref_t<decltype(value)>;
    Writer{written}.put(key, value);
    AttributeText& text = texts.emplace_back(AttributeText{key, written[key].dump(), {}});
    if constexpr (std::is_enum_v<Member> && !std::is_same_v<Member, DType>)
      text.words.assign(std::begin(words_of(value)), std::end(words_of(value)));
  });
  return texts;
}

std::string unread_attribute(const Node& node) {
  const std::string read = fmt::format(" {} ", op_def(node.op).text.attributes);
  const Json given = attrs_to_json(node.attrs);
  for (const auto& item : given.items()) {
    if (!(read.find(fmt::format(" {} ", item.key())) != std::string::npos)) return item.key();
  }
  return "";
}

}  // namespace mlx::graph
