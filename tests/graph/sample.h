// Shared by the graph tests: small graphs, random tensors, a session run as a function.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "graph/graph.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "kernels/philox.h"

namespace mlx::graph::sample {

// Uniform in [-scale, scale), the same for the same stream.
inline std::vector<float> random_floats(std::size_t count, std::uint64_t stream, float scale = 1.0f) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = (2.0f * kernels::to_unit(kernels::random_u32(7, stream, 0, i)) - 1.0f) * scale;
  }
  return out;
}

inline Tensor tensor(const kernels::Shape& shape, const void* data) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  return {shape, Bytes(bytes, bytes + shape.bytes())};
}

// Values for all parameters: random and scaled by fan-in; ones for gammas and variances, zeros for the rest.
inline Tensors random_tensors(const Graph& graph, std::uint64_t seed = 1) {
  Tensors tensors;
  const std::vector<std::int64_t> ones(graph.symbols.size(), 1);
  for (const Value& value : graph.values) {
    bool symbolic = false;
    for (const Dim& dim : value.dims) symbolic = symbolic || dim.symbolic();
    if (symbolic || (value.role != Role::kParameter && value.role != Role::kState)) continue;
    const kernels::Shape shape = concrete(value, ones);
    const auto count = static_cast<std::size_t>(shape.count());
    std::vector<float> data(count, 0.0f);
    std::uint64_t stream = seed;
    for (const char c : value.name) stream = stream * 131 + static_cast<unsigned char>(c);
    const bool one = value.name.find("gamma") != std::string::npos || value.name.find("variance") != std::string::npos;
    if (one) {
      data.assign(count, 1.0f);
    } else if (value.role == Role::kParameter) {
      const double fan_in = static_cast<double>(count) / static_cast<double>(shape.dims[0]);
      data = random_floats(count, stream, shape.rank > 1 ? static_cast<float>(std::sqrt(3.0 / fan_in)) : 0.1f);
    }
    tensors[value.name] = tensor(shape, data.data());
  }
  return tensors;
}

// images[batch,12,12,2] → conv, batch norm, relu, max pool, conv (stride 2), relu, flatten, dropout, dense, relu, dense
// to 4.
inline Graph cnn(float dropout = 0.25f) {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId images = g.input("images", DType::kF32, {batch, Dim::of(12), Dim::of(12), Dim::of(2)});
  const auto parameter = [&](const char* name, Dims dims) { return g.parameter(name, std::move(dims)); };
  Attrs conv;
  conv.kernel = {3, 3};
  conv.pad = {1, 1, 1, 1};
  ValueId x = g.add(Op::kConv2d, conv,
                    {images, parameter("conv1.weight", {Dim::of(8), Dim::of(3), Dim::of(3), Dim::of(2)})}, "conv1")[0];
  const Dims c8{Dim::of(8)};
  const ValueId gamma = parameter("norm1.gamma", c8), beta = parameter("norm1.beta", c8);
  const ValueId mean = g.state("norm1.mean", c8), variance = g.state("norm1.variance", c8);
  x = g.add(Op::kBatchNorm, {}, {x, gamma, beta, mean, variance}, "norm1")[0];
  x = g.add(Op::kRelu, {}, {x}, "relu1")[0];
  Attrs pool;
  pool.kernel = pool.stride = {2, 2};
  x = g.add(Op::kMaxPool, pool, {x}, "pool1")[0];
  conv.stride = {2, 2};
  x = g.add(
      Op::kConv2d, conv,
      {x, parameter("conv2.weight", {Dim::of(8), Dim::of(3), Dim::of(3), Dim::of(8)}), parameter("conv2.bias", c8)},
      "conv2")[0];
  x = g.add(Op::kRelu, {}, {x}, "relu2")[0];
  x = g.add_shaped(Op::kReshape, {}, {x}, {batch, Dim::of(72)}, "flatten")[0];
  if (dropout > 0) {
    Attrs rate;
    rate.rate = dropout;
    x = g.add(Op::kDropout, rate, {x}, "dropout")[0];
  }
  x = g.add(Op::kLinear, {},
            {x, parameter("dense1.weight", {Dim::of(16), Dim::of(72)}), parameter("dense1.bias", {Dim::of(16)})},
            "dense1")[0];
  x = g.add(Op::kRelu, {}, {x}, "relu3")[0];
  x = g.add(Op::kLinear, {},
            {x, parameter("dense2.weight", {Dim::of(4), Dim::of(16)}), parameter("dense2.bias", {Dim::of(4)})},
            "logits")[0];
  g.outputs = {x};
  return g;
}

// A transformer block and a tied head over ids[batch,sequence]: one parameter is used twice.
inline Graph transformer(std::int64_t vocabulary = 11, std::int64_t width = 8, std::int64_t context = 6,
                         float dropout = 0.1f) {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch")), sequence = Dim::sym(g.symbol("sequence"));
  const Dim d = Dim::of(width);
  const ValueId ids = g.input("ids", DType::kS32, {batch, sequence});
  const ValueId table = g.parameter("tokens.weight", {Dim::of(vocabulary), d});
  const auto norm = [&](const std::string& name, ValueId x) {
    const ValueId gamma = g.parameter(name + ".gamma", {d}), beta = g.parameter(name + ".beta", {d});
    return g.add(Op::kLayerNorm, {}, {x, gamma, beta}, name)[0];
  };
  const auto linear = [&](const std::string& name, ValueId x, Dim in, Dim out) {
    const ValueId w = g.parameter(name + ".weight", {out, in}), b = g.parameter(name + ".bias", {out});
    return g.add(Op::kLinear, {}, {x, w, b}, name)[0];
  };
  ValueId x = g.add(Op::kEmbedding, {}, {ids, table}, "tokens")[0];
  x = g.add(Op::kAddPositions, {}, {x, g.parameter("positions.weight", {Dim::of(context), d})}, "positions")[0];
  Attrs attention;
  attention.heads = 2;
  ValueId y = linear("qkv", norm("norm1", x), d, Dim::of(3 * width));
  y = linear("projection", g.add(Op::kAttention, attention, {y}, "attention")[0], d, d);
  if (dropout > 0) {
    Attrs rate;
    rate.rate = dropout;
    y = g.add(Op::kDropout, rate, {y}, "dropout")[0];
  }
  x = g.add(Op::kAdd, {}, {x, y}, "add1")[0];
  y = linear("up", norm("norm2", x), d, Dim::of(4 * width));
  y = linear("down", g.add(Op::kGelu, {}, {y}, "gelu")[0], Dim::of(4 * width), d);
  x = g.add(Op::kAdd, {}, {x, y}, "add2")[0];
  g.outputs = {g.add(Op::kLinear, {}, {norm("norm3", x), table}, "logits")[0]};
  return g;
}

// Two blocks with RMS norm, rotary positions, four query heads over two key heads, and SwiGLU.
inline Graph llama(std::int64_t vocabulary = 11, std::int64_t width = 16, std::int64_t hidden = 12) {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch")), sequence = Dim::sym(g.symbol("sequence"));
  const ValueId ids = g.input("ids", DType::kS32, {batch, sequence});
  const auto norm = [&](const std::string& name, ValueId x) {
    return g.add(Op::kRmsNorm, {}, {x, g.parameter(name + ".gamma", {Dim::of(width)})}, name)[0];
  };
  const auto linear = [&](const std::string& name, ValueId x, std::int64_t in, std::int64_t out) {
    return g.add(Op::kLinear, {}, {x, g.parameter(name + ".weight", {Dim::of(out), Dim::of(in)})}, name)[0];
  };
  Attrs attention, rope;
  attention.heads = 4, attention.kv_heads = 2;
  rope = attention;
  rope.axis = 6, rope.theta = 100.0f;
  ValueId x = g.add(Op::kEmbedding, {}, {ids, g.parameter("tokens.weight", {Dim::of(vocabulary), Dim::of(width)})},
                    "tokens")[0];
  for (const std::string block : {"a.", "b."}) {
    ValueId y = linear(block + "qkv", norm(block + "norm1", x), width, 2 * width);
    y = g.add(Op::kRope, rope, {y}, block + "rope")[0];
    y = linear(block + "projection", g.add(Op::kAttention, attention, {y}, block + "attention")[0], width, width);
    x = g.add(Op::kAdd, {}, {x, y}, block + "add1")[0];
    y = linear(block + "up", norm(block + "norm2", x), width, 2 * hidden);
    y = linear(block + "down", g.add(Op::kSwiGlu, {}, {y}, block + "swiglu")[0], hidden, width);
    x = g.add(Op::kAdd, {}, {x, y}, block + "add2")[0];
  }
  g.outputs = {linear("logits", norm("norm3", x), width, vocabulary)};
  return g;
}

inline std::vector<float> floats(ByteView bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// What graphs for a GPU are made for. The oracle computes them too.
inline const kernels::Capabilities& gpu() {
  return kernels::backend_named("cuda").can();
}

// All that outlives three steps on `backend` of a language model's training, on made-up ids.
inline Tensors trained_on_ids(const TrainingGraph& training, kernels::Backend backend) {
  Pool pool(1);
  SessionOptions options;
  options.backend = backend;
  options.training = true;
  options.seed = 3;
  Session session(training.graph, random_tensors(training.graph), options, pool);
  std::vector<std::int32_t> ids(4 * 6);
  const float rate = 0.01f;
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>((i * 7 + step) % 11);
    session.run({{training.graph.find("ids"), ids.data(), {4, 6}},
                 {training.labels, ids.data(), {4, 6}},
                 {training.learning_rate, &rate, {1}}},
                step);
  }
  return session.tensors();
}

// Images of four classes, distinguished by which quarter is bright, with noise.
struct Batch {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};
inline Batch images(std::int64_t count, std::uint64_t stream) {
  Batch batch;
  batch.images = random_floats(static_cast<std::size_t>(count) * 288, stream, 0.5f);
  for (std::int64_t n = 0; n < count; ++n) {
    const auto label = static_cast<std::int32_t>(kernels::random_u32(3, stream, 1, static_cast<std::uint64_t>(n)) % 4);
    batch.labels.push_back(label);
    for (std::int64_t y = 0; y < 6; ++y) {
      for (std::int64_t x = 0; x < 12; ++x) {
        batch.images[static_cast<std::size_t>(n * 288 + (y + label / 2 * 6) * 24 + x + label % 2 * 12)] += 1.0f;
      }
    }
  }
  return batch;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

inline std::int64_t count_of(const Graph& graph, Op op) {
  return std::ranges::count(graph.nodes, op, &Node::op);
}

// What `body` is refused for.
inline std::string refusal(auto&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message;
  }
  return "(nothing was refused)";
}

}  // namespace mlx::graph::sample
