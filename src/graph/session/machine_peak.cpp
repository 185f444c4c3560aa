// The machine's limits: square products of growing size until enough time went into them, and a streaming copy; in a
// device's own memory by its own kernels.

#include "graph/session/machine_peak.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "graph/memory.h"
#include "graph/session/session.h"

namespace mlx::graph {
namespace {

constexpr double kEnough = 0.15;  // seconds of products, after which no larger one is tried
constexpr int kRepeats = 3;
constexpr std::size_t kCopied = std::size_t{96} << 20;

// Of a graph that is fed nothing; its parameters are zeros.
double best_seconds(Graph graph, kernels::Backend backend, Pool& pool) {
  Tensors tensors;
  for (const Value& value : graph.values) {
    const kernels::Shape shape = concrete(value, {});
    if (value.role == Role::kParameter) tensors[value.name] = {shape, Bytes(shape.bytes(), 0)};
  }
  SessionOptions options;
  options.backend = backend;
  Session session(std::move(graph), tensors, options, pool);
  double best = 1e30;
  for (int i = 0; i <= kRepeats; ++i) {  // the first one plans and packs
    const double start = seconds_now();
    session.run({});
    session.wait();
    if (i > 0) best = std::min(best, seconds_now() - start);
  }
  return best;
}

// The best time of x[n,n] · wᵀ.
double product_seconds(std::int64_t n, kernels::Backend backend, Pool& pool) {
  Graph graph;
  const Dims square{Dim::of(n), Dim::of(n)};
  const ValueId x = graph.parameter("x", square), w = graph.parameter("w", square);
  graph.outputs = {graph.add(Op::kLinear, {}, {x, w}, "product")[0]};
  return best_seconds(std::move(graph), backend, pool);
}

double peak_flops(kernels::Backend backend, Pool& pool) {
  double peak = 0;
  for (const std::int64_t n : {128, 256, 512, 1024, 2048}) {
    const double seconds = product_seconds(n, backend, pool);
    const auto size = static_cast<double>(n);
    peak = std::max(peak, 2 * size * size * size / seconds);
    if (seconds * 8 * kRepeats > kEnough) break;  // the next one takes eight times as long
  }
  return peak;
}

double peak_bytes(Pool& pool) {
  const Memory from = allocate(kCopied), to = allocate(kCopied);
  const auto threads = static_cast<std::size_t>(pool.threads());
  const std::size_t part = kCopied / threads;
  const auto at = [&](const Memory& memory, std::int64_t slice) {
    return static_cast<std::uint8_t*>(memory.get()) + static_cast<std::size_t>(slice) * part;
  };
  pool.run(pool.threads(), [&](std::int64_t slice) { std::memset(at(from, slice), 1, part); });
  double best = 1e30;
  for (int i = 0; i <= kRepeats; ++i) {  // the first one brings the pages
    const double start = seconds_now();
    pool.run(pool.threads(), [&](std::int64_t slice) { std::memcpy(at(to, slice), at(from, slice), part); });
    if (i > 0) best = std::min(best, seconds_now() - start);
  }
  return 2 * static_cast<double>(part * threads) / best;
}

double peak_bytes_of_device(kernels::Backend backend, Pool& pool) {
  Graph graph;
  const ValueId x = graph.parameter("x", {Dim::of(static_cast<std::int64_t>(kCopied / sizeof(float)))});
  graph.outputs = {graph.add(Op::kRelu, {}, {x}, "copy")[0]};
  return 2 * static_cast<double>(kCopied) / best_seconds(std::move(graph), backend, pool);
}

}  // namespace

MachinePeak measure_peak(kernels::Backend backend, Pool& pool) {
  const bool own_memory = backend.can().own_memory;
  return {peak_flops(backend, pool), own_memory ? peak_bytes_of_device(backend, pool) : peak_bytes(pool)};
}

}  // namespace mlx::graph
