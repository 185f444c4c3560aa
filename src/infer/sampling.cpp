// Samples in double precision, with tokens in one fixed order: the same logits and seed give the same token everywhere.

#include "infer/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
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
  const auto share = [](double p) { return p > 0 && p <= 1; };
  if (!(sampling.temperature >= 0) || sampling.top_k < 0 || !share(sampling.top_p) || !share(sampling.typical) ||
      !(sampling.min_p >= 0 && sampling.min_p <= 1) || !(sampling.repetition >= kLeastRepetition)) {
    fail(
        ErrorKind::kUsage,
        "sampling: expected a temperature and top_k of at least 0, top_p and typical above 0 and at most 1, min_p from "
        "0 to 1, and repetition of at least {}",
        kLeastRepetition);
  }
}

bool changes_logits(const Sampling& s) {
  return !s.bias.empty() || s.repetition != 1 || s.frequency != 0 || s.presence != 0;
}

std::vector<float> changed(std::span<const float> logits, const Sampling& sampling, const Before& before) {
  std::vector<float> out(logits.begin(), logits.end());
  const auto of = [&](std::int32_t token) -> float& {
    if (token < 0 || static_cast<std::size_t>(token) >= out.size())
      fail(ErrorKind::kUsage, "the model has {} tokens, there is no token {}", out.size(), token);
    return out[static_cast<std::size_t>(token)];
  };
  for (const auto& [token, bias] : sampling.bias) of(token) += static_cast<float>(bias);
  std::map<std::int32_t, int> times;  // in the text
  for (const std::int32_t token : before.text) ++times[token];
  std::set<std::int32_t> occurred(before.prompt.begin(), before.prompt.end());
  occurred.insert(before.text.begin(), before.text.end());
  const auto repetition = static_cast<float>(sampling.repetition);
  for (const std::int32_t token : occurred) of(token) = of(token) > 0 ? of(token) / repetition : of(token) * repetition;
  for (const auto& [token, count] : times)
    of(token) -= static_cast<float>(count * sampling.frequency + sampling.presence);
  return out;
}

struct Candidate {
  std::int32_t token = 0;
  double weight = 0;  // its probability, not normalised
};
using Candidates = std::vector<Candidate>;  // from the most likely on

// Orders tokens, which ascend, by their logits from the largest on; equal ones stay in their order. A radix sort: a
// vocabulary is sorted for each token that is drawn, and comparing takes ten times as long.
void sort_by_logit(std::span<const float> logits, std::vector<std::int32_t>& tokens) {
  struct Keyed {
    std::uint32_t key;
    std::int32_t token;
  };
  std::vector<Keyed> from, to(tokens.size());
  from.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    const float logit = logits[static_cast<std::size_t>(token)] + 0.0f;  // so that -0 is 0
    const auto bits = std::bit_cast<std::uint32_t>(logit);
    from.push_back({bits >> 31 != 0 ? bits : ~bits & 0x7fffffffu, token});
  }
  for (int shift = 0; shift < 32; shift += 8) {
    const auto digit = [shift](const Keyed& each) { return each.key >> shift & 0xff; };
    std::array<std::size_t, 257> begin{};
    for (const Keyed& each : from) ++begin[digit(each) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const Keyed& each : from) to[begin[digit(each)]++] = each;
    std::swap(from, to);
  }
  std::ranges::transform(from, tokens.begin(), &Keyed::token);
}

// The `top_k` most likely, or all.
Candidates candidates_of(std::span<const float> logits, const Sampling& sampling, float most) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > -INFINITY) tokens.push_back(static_cast<std::int32_t>(i));
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::int64_t>(tokens.size())) {
    std::ranges::nth_element(tokens, tokens.begin() + sampling.top_k, before);
    tokens.resize(static_cast<std::size_t>(sampling.top_k));
    std::ranges::sort(tokens, before);
  } else {
    sort_by_logit(logits, tokens);
  }
  Candidates out;
  out.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    const double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]) - static_cast<double>(most);
    out.push_back({token, std::exp(logit / sampling.temperature)});
  }
  return out;
}

// Summed from the most likely on.
std::vector<double> sums_of(const Candidates& candidates) {
  std::vector<double> upto;
  upto.reserve(candidates.size());
  double total = 0;
  for (const Candidate& each : candidates) upto.push_back(total += each.weight);
  return upto;
}

// The first ones that together have the share p of all.
void keep_first(Candidates& candidates, double p) {
  const std::vector<double> upto = sums_of(candidates);
  const auto kept = static_cast<std::size_t>(std::ranges::lower_bound(upto, p * upto.back()) - upto.begin()) + 1;
  if (kept < candidates.size()) candidates.resize(kept);
}

void keep_typical(Candidates& candidates, double p) {
  const double total = sums_of(candidates).back();
  const auto information = [total](const Candidate& each) { return -std::log(each.weight / total); };
  double entropy = 0;
  for (const Candidate& each : candidates)
    if (each.weight > 0) entropy += each.weight / total * information(each);
  const auto distance = [&](const Candidate& each) { return std::fabs(information(each) - entropy); };
  Candidates near = candidates;
  std::ranges::stable_sort(near, {}, distance);
  keep_first(near, p);
  const double furthest = distance(near.back());
  std::erase_if(candidates, [&](const Candidate& each) { return distance(each) > furthest; });
}

// Logits of tokens that may not be drawn become those of tokens that never are.
void mask(std::span<float> logits, TokenMask allowed) {
  const std::size_t known = std::min(logits.size(), allowed.size() * 64);
  for (std::size_t i = 0; i < known; ++i)
    if ((allowed[i / 64] >> (i % 64) & 1) == 0) logits[i] = -INFINITY;
  std::ranges::fill(logits.subspan(known), -INFINITY);
}

}  // namespace

std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::uint64_t sample, std::uint64_t index,
                  const Before& before, TokenMask allowed) {
  check(sampling);
  CHECK(!logits.empty());
  std::vector<float> own;
  if (changes_logits(sampling)) logits = own = changed(logits, sampling, before);
  const bool wrong = std::ranges::any_of(logits, [](float v) { return std::isnan(v) || v == INFINITY; });
  if (!allowed.empty()) {
    if (own.empty()) own.assign(logits.begin(), logits.end());
    mask(own, allowed);
    logits = own;
  }
  const auto best = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  const float most = logits[static_cast<std::size_t>(best)];
  if (wrong || most == -INFINITY) fail(ErrorKind::kCorrupt, "the model's logits are not finite");
  if (sampling.temperature == 0) return best;

  Candidates candidates = candidates_of(logits, sampling, most);
  if (sampling.typical < 1) keep_typical(candidates, sampling.typical);
  if (sampling.top_p < 1) keep_first(candidates, sampling.top_p);
  const double least = sampling.min_p * candidates.front().weight;
  std::erase_if(candidates, [least](const Candidate& each) { return each.weight < least; });
  const std::vector<double> upto = sums_of(candidates);
  const double at = unit(sampling.seed, sample, index) * upto.back();
  const auto chosen = std::min<std::ptrdiff_t>(std::ranges::upper_bound(upto, at) - upto.begin(),
                                               static_cast<std::ptrdiff_t>(upto.size()) - 1);
  return candidates[static_cast<std::size_t>(chosen)].token;
}

LogProbabilities log_probabilities(std::span<const float> logits, std::int32_t drawn, std::int64_t top) {
  CHECK(drawn >= 0 && static_cast<std::size_t>(drawn) < logits.size());
  const auto most = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  const auto of = [&, total = most + std::log(sum)](std::int32_t token) {
    return LogProbability{token, static_cast<double>(logits[static_cast<std::size_t>(token)]) - total};
  };
  LogProbabilities out{of(drawn), {}};
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto count = std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(tokens.size()));
  std::ranges::partial_sort(tokens, tokens.begin() + count, [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::ptrdiff_t i = 0; i < count; ++i) out.top.push_back(of(tokens[static_cast<std::size_t>(i)]));
  return out;
}

}  // namespace mlx::infer
