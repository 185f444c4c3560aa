// The log-mel spectrogram of a sound as a grey image: what a network hears. Training, evaluation, predict and serving
// all get it here, so that a sound has the same bytes everywhere.
//
// The sound is brought to one channel and 16 kHz. A column is a frame: 25 ms around a multiple of 10 ms under a
// periodic Hann window, with silence before the first sample and behind the last. A row is a band: the powers of a
// Fourier transform of 512 points, summed under a triangle whose foot ends at its neighbours' tips. The tips lie evenly
// between 0 and 8 kHz on Slaney's mel scale (Auditory Toolbox, 1998), the highest band in the first row. A pixel is the
// band's level in steps of half a decibel: 0 is -120 dB or less, and 240 is 0 dB, the level of a full-scale sine.
#pragma once

#include <cstdint>
#include <string>

#include "formats/wav.h"

namespace mlx::data {

constexpr std::int64_t kUsualBands = 64, kMostBands = 192;  // with more, some would lie between the transform's points

// Frames of the whole sound: 100 a second, the last one begun. kUsage as Resampled.
std::int64_t frames_of(const formats::WavSound& sound, const std::string& what);
// Writes bands * frames pixels to `to`: the sound's beginning if it is longer, and silence behind it if it is shorter.
// `what` begins the messages of errors. kUsage and kCorrupt as Resampled.
void write_spectrogram(const formats::WavSound& sound, const std::string& what, std::int64_t bands, std::int64_t frames,
                       std::uint8_t* to);

}  // namespace mlx::data
