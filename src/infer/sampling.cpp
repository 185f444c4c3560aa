// Samples in double precision, with tokens in one fixed order: the same logits and seed give the same token everywhere.

#include "infer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "kernels/philox.h"

namespace mlx::infer {
namespace {

constexpr std::uint64_t kStream = 0x67656E6572617465ull;  // "generate"

// In [0, 1), 53 bits.
double unit(std::uint64_t seed, std::uint64_t sample, std::uint64_t index) {
  const auto random = kernels::random_block(seed, kStream + sample, index, 0);
  return static_cast<double>((std::uint64_t{random[0]} << 32 | random[1]) >> 11) * 0x1p-53;
}

void check(const Sampling& sampling) {
  if (!(sampling.temperature >= 0) || sampling.top_k < 0 || !(sampling.top_p > 0 && sampling.top_p <= 1)) {
    fail(ErrorKind::kUsage,
         "sampling: expected a temperature and top_k of at least 0, and top_p above 0 and at most 1");
  }
}

}  // namespace

std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::uint64_t sample, std::uint64_t index) {
  check(sampling);
  CHECK(!logits.empty());
  const bool wrong = std::ranges::any_of(logits, [](float v) { return std::isnan(v) || v == INFINITY; });
  const auto best = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  const float most = logits[static_cast<std::size_t>(best)];
  if (wrong || most == -INFINITY) fail(ErrorKind::kCorrupt, "the model's logits are not finite");
  if (sampling.temperature == 0) return best;

  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::int64_t>(tokens.size())) {
    std::ranges::nth_element(tokens, tokens.begin() + sampling.top_k, before);
    tokens.resize(static_cast<std::size_t>(sampling.top_k));
  }
  std::ranges::sort(tokens, before);
  std::vector<double> upto;  // unnormalised, summed from the most likely on
  upto.reserve(tokens.size());
  double total = 0;
  for (const std::int32_t token : tokens) {
    const double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]) - static_cast<double>(most);
    upto.push_back(total += std::exp(logit / sampling.temperature));
  }
  if (sampling.top_p < 1) {
    const auto last = std::ranges::lower_bound(upto, sampling.top_p * total);
    upto.erase(last + (last != upto.end()), upto.end());
  }
  const double at = unit(sampling.seed, sample, index) * upto.back();
  const auto chosen = std::min<std::ptrdiff_t>(std::ranges::upper_bound(upto, at) - upto.begin(),
                                               static_cast<std::ptrdiff_t>(upto.size()) - 1);
  return tokens[static_cast<std::size_t>(chosen)];
}

}  // namespace mlx::infer
