// Cholesky's factor of H in the reverse order, and its inverse, give the upper factor of H⁻¹ without H⁻¹: from H = R·Rᵀ
// with R upper follows H⁻¹ = R⁻ᵀ·R⁻¹, so U = R⁻¹. Both are computed by rows in blocks of columns, each element's sum in
// one order.

#include "compress/hessian.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "graph/session/session.h"

namespace mlx::compress {
namespace {

constexpr std::int64_t kBlock = 64;  // columns of a factor at a time

graph::Graph product_graph(std::int64_t inputs) {
  graph::Graph graph;
  const graph::Dim rows = graph::Dim::sym(graph.symbol("rows"));
  const graph::ValueId x = graph.input("x", graph::DType::kF32, {rows, graph::Dim::of(inputs)});
  graph.outputs = {graph.add(graph::Op::kLinearBackwardWeights, {}, {x, x}, "product")[0]};
  return graph;
}

// Subtracts from a[row][begin, end) its products with earlier columns of the factor, [0, begin).
void subtract_before(std::vector<double>& a, std::int64_t n, std::int64_t row, std::int64_t begin, std::int64_t end) {
  double* const to = a.data() + row * n;
  for (std::int64_t j = begin; j < end; ++j) {
    const double* const other = a.data() + j * n;
    double sums[4] = {0, 0, 0, 0};
    std::int64_t k = 0;
    for (; k + 4 <= begin; k += 4)
      for (std::int64_t i = 0; i < 4; ++i) sums[i] += to[k + i] * other[k + i];
    for (; k < begin; ++k) sums[0] += to[k] * other[k];
    to[j] -= (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

// The lower factor in place of the lower half of a[n][n]; false if it is not positive definite.
bool factorise(std::vector<double>& a, std::int64_t n, Pool& pool) {
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    pool.run(end - begin, [&](std::int64_t i) { subtract_before(a, n, begin + i, begin, begin + i + 1); });
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = begin; j <= i; ++j) {
        double sum = a[static_cast<std::size_t>(i * n + j)];
        for (std::int64_t k = begin; k < j; ++k)
          sum -= a[static_cast<std::size_t>(i * n + k)] * a[static_cast<std::size_t>(j * n + k)];
        if (i == j && !(sum > 0 && std::isfinite(sum))) return false;
        a[static_cast<std::size_t>(i * n + j)] = i == j ? std::sqrt(sum) : sum / a[static_cast<std::size_t>(j * n + j)];
      }
    }
    pool.run(n - end, [&](std::int64_t below) {
      const std::int64_t row = end + below;
      subtract_before(a, n, row, begin, end);
      for (std::int64_t j = begin; j < end; ++j) {
        double sum = a[static_cast<std::size_t>(row * n + j)];
        for (std::int64_t k = begin; k < j; ++k)
          sum -= a[static_cast<std::size_t>(row * n + k)] * a[static_cast<std::size_t>(j * n + k)];
        a[static_cast<std::size_t>(row * n + j)] = sum / a[static_cast<std::size_t>(j * n + j)];
      }
    });
  }
  return true;
}

// Row `i` of the inverse M of the lower factor L, by rows: M[i] = (e_i - sum over k < i of L[i][k] · M[k]) / L[i][i].
// Blocks of columns of M do not depend on one another.
void invert_columns(const std::vector<double>& l, std::int64_t n, std::int64_t begin, std::int64_t end,
                    std::vector<double>& m) {
  for (std::int64_t i = begin; i < n; ++i) {
    double* const to = m.data() + i * n;
    for (std::int64_t k = begin; k < i; ++k) {
      const double factor = l[static_cast<std::size_t>(i * n + k)];
      const double* const row = m.data() + k * n;
      for (std::int64_t j = begin; j < std::min(end, k + 1); ++j) to[j] -= factor * row[j];
    }
    if (i < end) to[i] += 1;
    const double divisor = l[static_cast<std::size_t>(i * n + i)];
    for (std::int64_t j = begin; j < std::min(end, i + 1); ++j) to[j] /= divisor;
  }
}

std::vector<std::int64_t> largest_first(std::span<const double> hessian, std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::int64_t i) { return hessian[static_cast<std::size_t>(i * (n + 1))]; });
  return order;
}

// H in that order reversed, dampened: its lower half.
std::vector<double> reversed(std::span<const double> hessian, std::span<const std::int64_t> order, double added) {
  const auto n = static_cast<std::int64_t>(order.size());
  std::vector<double> out(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(n - 1 - i)];
    for (std::int64_t j = 0; j <= i; ++j) {
      const std::int64_t to = order[static_cast<std::size_t>(n - 1 - j)];
      out[static_cast<std::size_t>(i * n + j)] =
          hessian[static_cast<std::size_t>(std::max(from, to) * n + std::min(from, to))];
    }
    out[static_cast<std::size_t>(i * (n + 1))] += added;
  }
  return out;
}

}  // namespace

struct Hessian::Product {
  Product(const graph::Graph& graph, const graph::SessionOptions& options, Pool& pool)
      : session(graph, std::make_shared<const graph::Weights>(), options, pool),
        x(graph.inputs[0]),
        out(graph.outputs[0]) {}
  graph::Session session;
  graph::ValueId x, out;
};

Hessian::Hessian(std::int64_t inputs, kernels::Backend backend, Pool& pool)
    : inputs_(inputs), pool_(pool), sums_(static_cast<std::size_t>(inputs * inputs), 0.0) {
  graph::SessionOptions options;
  options.backend = backend;
  options.tile = 0;  // all rows go into one product
  product_ = std::make_unique<Product>(product_graph(inputs), options, pool);
}

Hessian::~Hessian() = default;

void Hessian::add(std::span<const float> x) {
  const auto rows = static_cast<std::int64_t>(x.size()) / inputs_;
  CHECK(rows > 0 && rows * inputs_ == static_cast<std::int64_t>(x.size()));
  product_->session.run({{product_->x, x.data(), {rows, inputs_}}});
  const auto* const part = reinterpret_cast<const float*>(product_->session.output(product_->out).data());
  pool_.run(inputs_, [&](std::int64_t i) {
    for (std::int64_t at = i * inputs_; at < (i + 1) * inputs_; ++at)
      sums_[static_cast<std::size_t>(at)] += static_cast<double>(part[at]);
  });
}

InverseFactor inverse_factor(std::span<const double> hessian, double dampening, Pool& pool) {
  const auto n = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(hessian.size()))));
  CHECK(static_cast<std::size_t>(n * n) == hessian.size());
  double mean = 0;
  for (std::int64_t i = 0; i < n; ++i) mean += hessian[static_cast<std::size_t>(i * (n + 1))] / static_cast<double>(n);
  if (!std::isfinite(mean)) fail(ErrorKind::kNo, "the activations are not finite on the calibration data");
  if (mean == 0) mean = 1 / dampening;  // nothing comes in: the inputs count the same
  InverseFactor out{largest_first(hessian, n), {}};
  std::vector<double> lower;
  constexpr int kTries = 6;
  for (int i = 0;; ++i, dampening *= 10) {
    lower = reversed(hessian, out.order, dampening * mean);
    if (factorise(lower, n, pool)) break;
    if (i == kTries) fail(ErrorKind::kNo, "the activations are not finite on the calibration data");
  }
  std::vector<double> inverse(lower.size(), 0.0);
  pool.run((n + kBlock - 1) / kBlock, [&](std::int64_t block) {
    invert_columns(lower, n, block * kBlock, std::min(n, (block + 1) * kBlock), inverse);
  });
  std::ranges::reverse(inverse);  // rows and columns, both
  out.upper = std::move(inverse);
  return out;
}

}  // namespace mlx::compress
