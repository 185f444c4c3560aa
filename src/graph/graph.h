// The intermediate representation: a flat list of operations over values with inferred shapes and dtypes. The same
// graph is trained, quantized, exported and served. Passes are functions from graph to graph.
//
// Sizes may be symbolic (batch, sequence); a session binds symbols to values of at least 1. Sizes of inputs and states
// are numbers or plain symbols; those of parameters and constants are numbers; those of activations are any expressions
// (dim.h), and may be 0. Activations are written once. Parameters and states can be written in place by a node that
// lists them as an output (optimizers, running statistics, KV caches).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json_fwd.h"
#include "graph/dim.h"
#include "kernels/kernel.h"

namespace mlx::graph {

using kernels::Activation;
using kernels::Attrs;
using kernels::DType;
using kernels::Op;

using ValueId = std::int32_t;
inline constexpr ValueId kNone = -1;  // an absent optional input or output
inline std::size_t index(ValueId id) {
  return static_cast<std::size_t>(id);
}

enum class Role : std::uint8_t {
  kActivation,  // lives within one step, in the arena
  kInput,       // fed by the caller
  kParameter,   // trained; outlives a step
  kState,       // outlives a step: optimizer state, running statistics, KV cache
  kConstant,    // outlives a step and never changes: quantization scales
};

inline bool outlives_step(Role role) {
  return role == Role::kParameter || role == Role::kState || role == Role::kConstant;
}

struct Value {
  std::string name;  // unique; parameters "conv1.weight", gradients "conv1.weight.grad"
  DType dtype = DType::kF32;
  Dims dims;
  Role role = Role::kActivation;
};

struct Node {
  Op op{};
  Attrs attrs;
  std::vector<ValueId> inputs, outputs;
  std::string name;  // "conv1"
};

struct Graph {
  std::vector<std::string> symbols;  // "batch", "sequence"
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order in which they can run
  std::vector<ValueId> inputs, outputs;

  int symbol(std::string_view name);  // its index; added if it is new
  ValueId input(std::string name, DType dtype, Dims dims);
  ValueId parameter(std::string name, Dims dims, DType dtype = DType::kF32);
  ValueId state(std::string name, Dims dims, DType dtype = DType::kF32);
  ValueId constant(std::string name, Dims dims, DType dtype);
  // Appends a node. The operation's shape rule gives its outputs' shapes; in-place outputs are the inputs themselves.
  // Throws kUsage, naming node and shapes, if they do not fit. Returns the outputs (kNone for absent ones).
  std::vector<ValueId> add(Op op, const Attrs& attrs, std::vector<ValueId> inputs, std::string name = {});
  // The same with the first output's shape given by the caller (reshape, backward of pooling).
  std::vector<ValueId> add_shaped(Op op, const Attrs& attrs, std::vector<ValueId> inputs, Dims output,
                                  std::string name = {});
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  ValueId find(std::string_view name) const;  // kNone if there is none
};

// A tensor's bytes and concrete shape: for parameters, states and constants outside of sessions.
struct Tensor {
  kernels::Shape shape;
  Bytes data;
};
using Tensors = std::map<std::string, Tensor>;  // by value name

std::string to_text(const Graph& graph, const Dims& dims);  // "[batch,28,28,1]"
std::string to_text(const Graph& graph, const Dim& dim);    // "2*batch*sequence+1"
// Checks every index, shape and order. Throws kCorrupt naming the fault, because a graph from a file may be hostile.
void validate(const Graph& graph);

Json to_json(const Graph& graph);
Graph graph_from_json(const Json& json, std::string_view what);  // validated; kCorrupt

// A concrete shape under bound symbols.
kernels::Shape concrete(const Value& value, const std::vector<std::int64_t>& symbol_sizes);

}  // namespace mlx::graph
