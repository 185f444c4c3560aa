// A sound at 16 kHz, whatever its own rate. Used by spectrograms, which ask for its samples one by one, so that a sound
// of an hour takes no more memory than one of a second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/wav.h"

namespace mlx::data {

constexpr std::int64_t kSoundRate = 16000;

// Between two rates samples are interpolated by a sinc with a Hann window of six zero crossings to each side, and its
// cutoff at 0.99 of half the lower rate (Smith, "Digital Audio Resampling"; the default of
// torchaudio.functional.resample).
class Resampled {
 public:
  // `what` begins the messages of errors. kUsage for a rate below 4 kHz, above 192 kHz, or whose ratio with 16 kHz
  // needs more than 640 different filters; the usual ones need at most that. `sound` points into bytes that must
  // outlive this.
  Resampled(const formats::WavSound& sound, std::string what);

  std::int64_t count() const { return count_; }
  // Sample `index`, 0 outside of [0, count()). kCorrupt if the sound has a sample there that is no finite number.
  double at(std::int64_t index) const;

 private:
  double original(std::int64_t index) const;

  formats::WavSound sound_;
  std::string what_;
  std::int64_t from_ = 1, to_ = 1;  // the rates, without their common factors
  std::int64_t reach_ = 0;          // samples of the sound that count on each side
  std::int64_t count_ = 0;
  std::vector<double> filters_;  // [to_][2 * reach_ + 1]; empty if the rate is right
};

}  // namespace mlx::data
