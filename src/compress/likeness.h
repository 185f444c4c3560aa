// How like a language model is to the one that it was made of, on text: perplexity of both, Kullback-Leibler divergence
// of what they predict, and how often they agree on the most likely token. Used by quantize_text.cpp and widths.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "compress/products.h"
#include "compress/text_windows.h"
#include "infer/model.h"

namespace mlx::compress {

struct Likeness {
  std::int64_t tokens = 0;             // that were predicted
  double nats_before = 0, nats = 0;    // a token
  double kl_divergence = 0, top1 = 0;  // nats a token; the share of tokens
  double perplexity_before() const;
  double perplexity() const;
  double rise() const;  // of the perplexity, as a share of what it was
};

// Both models run over the same windows, with the same kernels. Sums have one order.
class Comparison {
 public:
  // Weights of either may be in half precision. `keep`: keeps what the first model says, which takes memory, for many
  // comparisons. Throws kNo if it is not finite.
  Comparison(nn::Model before, TextWindows windows, bool keep, const Engine& engine);
  ~Comparison();
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  // Throws kNo if what `after` says is not finite.
  Likeness with(nn::Model after, Progress& progress);

 private:
  struct Runner;
  std::span<const float> before(std::size_t batch, std::int64_t first, std::int64_t count);

  TextWindows windows_;
  Engine engine_;
  std::unique_ptr<Runner> runner_;
  bool keep_;
  std::vector<std::vector<float>> kept_;  // by batch
};

// How many windows one batch has.
std::int64_t compared_at_once(const TextWindows& windows, std::int64_t vocabulary);

}  // namespace mlx::compress
