// What the graph knows about an operation: shape rule, backward, cost, and properties for passes. Each family of
// kernels/op_list.h has one file in src/graph/ops/, which defines FAMILY_ops().
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace mlx::graph {

struct Cost {
  double flops = 0;  // multiply and add count as two
  double bytes = 0;  // read and written
};

// How an operation computes in inference if its input 0 is quantized to eight bits with one scale.
enum class EightBits : std::uint8_t {
  kRefused,     // not supported: it takes f32
  kLayer,       // its weights, input 1, are in eight bits; its result is f32 or eight bits
  kKeepsScale,  // its result has eight bits with the same scale
  kGivesF32,
};

// How ranks divide the last dimension of input 0, so that each computes its part of the result from its own part.
enum class Divided : std::uint8_t {
  kNever,
  kElements,  // anyhow
  kHalves,    // each half in the same way
  kHeads,     // heads of queries, of keys and of values, each in the same way; attrs.heads and kv_heads count them
};

// The initial value of a parameter that nothing else provides.
struct StartValue {
  enum Kind : std::uint8_t {
    kZero,
    kOne,
    kWeights,  // random; factors of sums with fan_in terms, and fan_out terms in the backward pass
    kTable,    // random; rows that are looked up
  };
  Kind kind = kZero;
  double fan_in = 0, fan_out = 0;
};

// What mlx-format-graph(5) says of an operation.
struct OpText {
  // The inputs and outputs, "x real[N,C], (b[C]) -> y real[N,C]": optional ones in parentheses, a dtype where it is not
  // f32, a shape where it matters. The page explains the words and letters.
  const char* tensors = "";
  const char* attributes = "";  // the keys in model.json of the attributes that it reads, with spaces between them
  const char* purpose = "";     // what it computes, with the source of what has one
};

struct OpDef {
  Op op{};
  OpText text;
  // From kernels/op_list.h: inputs from required_inputs on may be absent. A view has no kernel, because it is
  // no work, and a collective none, because the session asks other ranks (session/collectives.h).
  int required_inputs = 0, max_inputs = 0;
  bool view = false, collective = false;
  unsigned optional_outputs = 0;  // bit i: output i may be absent (kNone)
  unsigned in_place = 0;          // bit i: output in_place_output may take the memory of input i
  std::size_t in_place_output = 0;
  unsigned reads_half = 0;  // bit i: input i, computed with in f32, may be stored in half precision
  // Output half_output, computed in f32, is stored as attrs.output says; for products only with half factors.
  bool stores_half = false;
  std::size_t half_output = 0;
  bool half_if_throughout = false;  // reads_half and stores_half hold only if kernels::Capabilities::half_throughout
  unsigned half_with_result = 0;    // bit i: input i may be half instead of f32, if all of these and output 0 are
  // A norm: the optional residual input, and also the output for the sum. A norm's gradient: the optional input that is
  // added to dx. 0 for none.
  std::size_t addend = 0;
  bool loss = false;     // output 0 is what training minimizes; it computes its own gradient
  bool product = false;  // multiplies matrices: its factors may be half or tf32
  bool layer = false;    // a product of activations, input 0, and weights, input 1
  Divided divided = Divided::kNever;
  bool random = false;  // draws random numbers for each example, or takes drawn ones
  EightBits eight_bits = EightBits::kRefused;
  Activation activation = Activation::kNone;  // the operation is this activation
  unsigned fuses = 0;                         // bit i: it computes Activation i as attrs.activation
  // Appends the node's outputs to `graph` (values) and returns them. Throws kUsage if shapes do not fit.
  std::vector<ValueId> (*infer)(Graph& graph, const Attrs& attrs, const std::vector<ValueId>& inputs,
                                const Dims* output, const std::string& name) = nullptr;
  // Adds gradient operations for `node`, given the gradients of its outputs (kNone: zero). Returns one gradient per
  // input (kNone if there is none). Null if the operation cannot be trained.
  std::vector<ValueId> (*backward)(Graph& graph, const Node& node,
                                   const std::vector<ValueId>& output_gradients) = nullptr;
  Cost (*cost)(const Node& node, std::span<const kernels::Shape> inputs,
               std::span<const kernels::Shape> outputs) = nullptr;
  // The initial value of a parameter with this shape that is the node's input. Null: zeros.
  StartValue (*start)(const Node& node, std::size_t input, const kernels::Shape& shape) = nullptr;
};

// An attribute in model.json: its key, its default as JSON, and the words that it may be, if it is one.
struct AttributeText {
  std::string key, fallback;
  std::vector<std::string> words;
};
std::vector<AttributeText> attribute_texts();
// The first attribute of `node` that is not the default though the operation does not read it; "" if there is none.
std::string unread_attribute(const Node& node);

constexpr unsigned bit_of(Activation activation) {
  return 1u << static_cast<unsigned>(activation);
}

const OpDef& op_def(Op op);
// True if the node uses op_def(op).addend.
bool adds(const Node& node);
Op op_named(std::string_view name);  // Op::kCount if there is none
// The operation's own cost, or only the bytes of its tensors if it has no rule. Absent tensors have rank -1.
Cost cost_of(const Node& node, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs);

// Reverse-mode differentiation of the scalar `loss`, which a loss operation wrote. Adds nodes in reverse order and
// returns the gradient of each of `wrt`, named "NAME.grad" (kNone if the loss does not depend on it). The gradients of
// a value with several uses are added from the last use to the first. Unneeded nodes are left for remove_dead. Throws
// kUsage if an operation on the way has no backward.
// `given`: values whose gradients come from elsewhere, as other values; the gradients of the graph's own nodes are
// added to these. With them `loss` may be kNone.
struct GivenGradient {
  ValueId value = kNone, gradient = kNone;
};
std::vector<ValueId> differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& wrt,
                                   const std::vector<GivenGradient>& given = {});

}  // namespace mlx::graph
