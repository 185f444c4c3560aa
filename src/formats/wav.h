// WAV: uncompressed sound in a RIFF file, as "Multimedia Programming Interface and Data Specifications 1.0" (IBM and
// Microsoft, 1991) and Microsoft's WAVEFORMATEXTENSIBLE describe it. Bytes in, structure out: nothing is allocated.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace mlx::formats {

struct WavSound {
  std::int64_t rate = 0;   // samples a second, of each channel
  std::int64_t count = 0;  // samples of each channel, at least one
  int channels = 0;        // 1 or 2
  int bits = 0;            // 8, 16, 24 or 32
  bool floats = false;     // IEEE 754, of 32 bits
  ByteView samples;        // [count, channels], little endian; points into the parsed bytes
};

bool is_wav(ByteView begin);  // of the first 12 bytes of a file, or more
// kCorrupt "WHAT: offset 12: …" if a chunk is damaged, cut off or missing, or there is no sample; kUsage with a hint
// for other encodings and more than two channels. What stands behind the samples is not read.
WavSound parse_wav(ByteView bytes, std::string_view what);

// Sample `index`, the mean of the channels: from -1 to 1 for whole numbers; of floats whatever they are, NaN included.
double sample_at(const WavSound& sound, std::int64_t index);

}  // namespace mlx::formats
