// A filter for each of the places that a wanted sample can have between two of the sound.

#include "data/sounds/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr std::int64_t kLowestRate = 4000, kHighestRate = 192000, kMostFilters = 640;
constexpr double kCrossings = 6, kCutoff = 0.99;

// `cutoff`: of the filter, as a part of half the sound's rate. `apart`: in samples of the sound.
double filter_at(double cutoff, double apart) {
  const double u = apart * cutoff;
  if (std::abs(u) >= kCrossings) return 0;
  const double window = std::cos(u * std::numbers::pi / (2 * kCrossings));
  const double sinc = u == 0 ? 1 : std::sin(u * std::numbers::pi) / (u * std::numbers::pi);
  return cutoff * window * window * sinc;
}

}  // namespace

Resampled::Resampled(const formats::WavSound& sound, std::string what) : sound_(sound), what_(std::move(what)) {
  const std::int64_t common = std::gcd(sound.rate, kSoundRate);
  from_ = sound.rate / common, to_ = kSoundRate / common;
  if (sound.rate < kLowestRate || sound.rate > kHighestRate || to_ > kMostFilters) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: a rate of {} Hz is not read", what_, sound.rate),
                "resample it, for example: sox FILE -r 16000 FILE.wav");
  }
  count_ = (sound.count * to_ + from_ - 1) / from_;
  if (from_ == to_) return;
  const double cutoff = kCutoff * static_cast<double>(std::min(from_, to_)) / static_cast<double>(from_);
  reach_ = static_cast<std::int64_t>(std::ceil(kCrossings / cutoff)) + 1;
  for (std::int64_t place = 0; place < to_; ++place) {
    const double begin = static_cast<double>(place) / static_cast<double>(to_);
    for (std::int64_t i = -reach_; i <= reach_; ++i)
      filters_.push_back(filter_at(cutoff, begin - static_cast<double>(i)));
  }
}

double Resampled::original(std::int64_t index) const {
  const double value = formats::sample_at(sound_, index);
  if (!std::isfinite(value)) fail(ErrorKind::kCorrupt, "{}: sample {} is no finite number", what_, index);
  return value;
}

double Resampled::at(std::int64_t index) const {
  if (index < 0 || index >= count_) return 0;
  if (filters_.empty()) return original(index);
  const std::int64_t middle = index * from_ / to_;
  const double* const filter = filters_.data() + (index * from_ % to_) * (2 * reach_ + 1) + reach_;
  double sum = 0;
  for (std::int64_t i = std::max(-reach_, -middle); i <= std::min(reach_, sound_.count - 1 - middle); ++i)
    sum += filter[i] * original(middle + i);
  return sum;
}

}  // namespace mlx::data
