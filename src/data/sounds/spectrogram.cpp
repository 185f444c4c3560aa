// In double precision, in a fixed order and without vector units: what one machine's cosine has in its last bit lies
// twelve digits below the step of a pixel.

#include "data/sounds/spectrogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "data/sounds/resample.h"

namespace mlx::data {
namespace {

constexpr std::size_t kPoints = 512, kBins = kPoints / 2 + 1;
constexpr std::int64_t kWindow = kSoundRate / 40, kStep = kSoundRate / 100;
constexpr double kFloor = -120, kStepsPerDecibel = 2;

// The powers of the transform's points from 0 to half the rate, by the radix-2 algorithm of Cooley and Tukey (1965).
class Fourier {
 public:
  Fourier() {
    for (std::size_t i = 0; i < kPoints / 2; ++i) {
      const double angle = -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(kPoints);
      cos_[i] = std::cos(angle), sin_[i] = std::sin(angle);
    }
    for (std::size_t i = 1; i < kPoints; ++i) reversed_[i] = reversed_[i / 2] / 2 + (i % 2) * (kPoints / 2);
  }

  void powers(const std::array<double, kPoints>& samples, std::array<double, kBins>& out) {
    for (std::size_t i = 0; i < kPoints; ++i) real_[i] = samples[reversed_[i]], imaginary_[i] = 0;
    for (std::size_t half = 1; half < kPoints; half *= 2)
      for (std::size_t begin = 0; begin < kPoints; begin += 2 * half)
        for (std::size_t i = 0; i < half; ++i) butterfly(begin + i, begin + i + half, i * (kPoints / 2 / half));
    for (std::size_t k = 0; k < kBins; ++k) out[k] = real_[k] * real_[k] + imaginary_[k] * imaginary_[k];
  }

 private:
  void butterfly(std::size_t a, std::size_t b, std::size_t turn) {
    const double real = real_[b] * cos_[turn] - imaginary_[b] * sin_[turn];
    const double imaginary = real_[b] * sin_[turn] + imaginary_[b] * cos_[turn];
    real_[b] = real_[a] - real, imaginary_[b] = imaginary_[a] - imaginary;
    real_[a] += real, imaginary_[a] += imaginary;
  }

  std::array<double, kPoints / 2> cos_{}, sin_{};
  std::array<std::size_t, kPoints> reversed_{};
  std::array<double, kPoints> real_{}, imaginary_{};
};

// Slaney's scale: linear up to 1 kHz, which is 15 mel, and logarithmic above.
double mel_of(double hertz) {
  return hertz < 1000 ? hertz * 3 / 200 : 15 + 27 * std::log(hertz / 1000) / std::log(6.4);
}
double hertz_of(double mel) {
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

// The triangle of a band: weights of the transform's points from `first` on.
struct Band {
  std::size_t first = 0;
  std::vector<double> weights;
};

std::vector<Band> mel_bands(std::int64_t count) {
  const double highest = mel_of(static_cast<double>(kSoundRate) / 2);
  const auto tip = [&](std::int64_t i) {
    return hertz_of(highest * static_cast<double>(i) / static_cast<double>(count + 1));
  };
  std::vector<Band> bands(static_cast<std::size_t>(count));
  for (std::int64_t b = 0; b < count; ++b) {
    const double below = tip(b), middle = tip(b + 1), above = tip(b + 2);
    Band& band = bands[static_cast<std::size_t>(b)];
    for (std::size_t k = 0; k < kBins; ++k) {
      const double hertz = static_cast<double>(k) * static_cast<double>(kSoundRate) / static_cast<double>(kPoints);
      const double weight = std::min((hertz - below) / (middle - below), (above - hertz) / (above - middle));
      if (weight <= 0) continue;
      if (band.weights.empty()) band.first = k;
      band.weights.push_back(weight);
    }
  }
  return bands;
}

std::array<double, kWindow> hann() {
  std::array<double, kWindow> window{};
  for (std::size_t i = 0; i < window.size(); ++i)
    window[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(kWindow));
  return window;
}

// `energy` of a full-scale sine is 1.
std::uint8_t pixel_of(double energy) {
  const double level = energy > 0 ? 10 * std::log10(energy) : kFloor;
  return static_cast<std::uint8_t>(std::clamp(std::round((level - kFloor) * kStepsPerDecibel), 0.0, 255.0));
}

}  // namespace

std::int64_t frames_of(const formats::WavSound& sound, const std::string& what) {
  return (Resampled(sound, what).count() + kStep - 1) / kStep;
}

void write_spectrogram(const formats::WavSound& sound, const std::string& what, std::int64_t bands, std::int64_t frames,
                       std::uint8_t* to) {
  const Resampled samples(sound, what);
  const std::vector<Band> mel = mel_bands(bands);
  const std::array<double, kWindow> window = hann();
  constexpr double kFullScale = static_cast<double>(kWindow * kWindow) / 16;  // (sum of the window / 2)²
  Fourier fourier;
  std::array<double, kWindow> heard{};  // the samples under the window
  std::array<double, kPoints> windowed{};
  std::array<double, kBins> powers{};
  std::int64_t next = 0;  // behind those in `heard`, of which the last is sample next - 1
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    const std::int64_t end = frame * kStep + kWindow / 2;
    std::move(heard.begin() + (end - next), heard.end(), heard.begin());
    for (; next < end; ++next) heard[static_cast<std::size_t>(kWindow - end + next)] = samples.at(next);
    for (std::size_t i = 0; i < heard.size(); ++i) windowed[i] = heard[i] * window[i];
    fourier.powers(windowed, powers);
    for (std::int64_t b = 0; b < bands; ++b) {
      const Band& band = mel[static_cast<std::size_t>(b)];
      double energy = 0;
      for (std::size_t k = 0; k < band.weights.size(); ++k) energy += band.weights[k] * powers[band.first + k];
      to[(bands - 1 - b) * frames + frame] = pixel_of(energy / kFullScale);
    }
  }
}

}  // namespace mlx::data
