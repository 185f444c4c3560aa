// How a linear layer's inputs go together: H = sum of x · xᵀ over calibration data, and its factors as GPTQ needs them
// (gptq.h). Products are those of the session's kernels, sums over batches in double, in the order of the batches; with
// portable kernels the bits are the same on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "kernels/backend.h"

namespace mlx::compress {

class Hessian {
 public:
  // Of a layer with so many inputs. `pool` outlives it.
  Hessian(std::int64_t inputs, kernels::Backend backend, Pool& pool);
  ~Hessian();
  Hessian(const Hessian&) = delete;
  Hessian& operator=(const Hessian&) = delete;

  void add(std::span<const float> x);                     // whole rows of inputs
  std::span<const double> sums() const { return sums_; }  // [inputs][inputs]

 private:
  struct Product;
  std::int64_t inputs_;
  Pool& pool_;
  std::vector<double> sums_;
  std::unique_ptr<Product> product_;
};

// The order in which GPTQ rounds inputs, those with the largest squares first, and the upper factor U of the inverse of
// H in that order: H⁻¹ = Uᵀ · U.
struct InverseFactor {
  std::vector<std::int64_t> order;
  std::vector<double> upper;  // [inputs][inputs], zeros below the diagonal
};
// `dampening` times the mean of H's diagonal is added to the diagonal (Frantar et al.: 0.01), and ten times as much as
// often as H is not positive definite in double. Throws kNo if H is not finite.
InverseFactor inverse_factor(std::span<const double> hessian, double dampening, Pool& pool);

}  // namespace mlx::compress
