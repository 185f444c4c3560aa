// Walks the chunks up to the samples: a name of four bytes, a size, and as many bytes, padded to an even number.

#include "formats/wav.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace mlx::formats {
namespace {

constexpr std::uint64_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;
constexpr std::size_t kChunkHeader = 8, kFormatSize = 16, kExtensibleSize = 40;
// What follows the encoding in the GUID of an extensible format.
constexpr std::string_view kGuidEnd{"\0\0\0\0\x10\0\x80\0\0\xAA\0\x38\x9B\x71", 14};

std::uint64_t number_at(ByteView bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
  return value;
}

std::string_view text_at(ByteView bytes, std::size_t at, std::size_t size) {
  return as_text(bytes.subspan(at, size));
}

[[noreturn]] void refuse(std::string_view what, const std::string& why) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {}", what, why),
              "convert it, for example: sox FILE -c 1 -r 16000 -b 16 FILE.wav");
}

// The chunk "fmt ", which lies `at` this offset.
WavSound parse_format(ByteView chunk, std::size_t at, std::string_view what) {
  if (chunk.size() < kFormatSize)
    fail(ErrorKind::kCorrupt, "{}: offset {}: the format has {} bytes, expected 16 or more", what, at, chunk.size());
  WavSound sound;
  std::uint64_t encoding = number_at(chunk, 0, 2);
  const std::uint64_t channels = number_at(chunk, 2, 2), bits = number_at(chunk, 14, 2);
  sound.rate = static_cast<std::int64_t>(number_at(chunk, 4, 4));
  if (encoding == kExtensible) {
    if (chunk.size() < kExtensibleSize || text_at(chunk, 26, kGuidEnd.size()) != kGuidEnd)
      fail(ErrorKind::kCorrupt, "{}: offset {}: the extensible format names no known encoding", what, at);
    encoding = number_at(chunk, 24, 2);
  }
  const bool whole = encoding == kPcm && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
  if (!whole && !(encoding == kFloat && bits == 32)) {
    refuse(what, fmt::format("encoding {} with {} bits is not read, only PCM of 8, 16, 24 and 32 bits and floats of 32",
                             encoding, bits));
  }
  if (channels != 1 && channels != 2)
    refuse(what, fmt::format("it has {} channels; only mono and stereo are read", channels));
  if (number_at(chunk, 12, 2) != channels * bits / 8) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: a frame of {} bytes does not hold {} channels of {} bits", what, at,
         number_at(chunk, 12, 2), channels, bits);
  }
  sound.channels = static_cast<int>(channels);
  sound.bits = static_cast<int>(bits);
  sound.floats = encoding == kFloat;
  return sound;
}

void take_samples(WavSound& sound, ByteView samples, std::size_t at, std::string_view what) {
  if (sound.channels == 0) fail(ErrorKind::kCorrupt, "{}: offset {}: samples stand before their format", what, at);
  const auto frame = static_cast<std::size_t>(sound.channels * sound.bits / 8);
  if (samples.empty()) fail(ErrorKind::kCorrupt, "{}: offset {}: it has no sample", what, at);
  if (samples.size() % frame != 0) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: {} bytes of samples are no multiple of {}", what, at, samples.size(),
         frame);
  }
  sound.count = static_cast<std::int64_t>(samples.size() / frame);
  sound.samples = samples;
}

}  // namespace

bool is_wav(ByteView begin) {
  return begin.size() >= 12 && text_at(begin, 0, 4) == "RIFF" && text_at(begin, 8, 4) == "WAVE";
}

WavSound parse_wav(ByteView bytes, std::string_view what) {
  if (!is_wav(bytes)) fail(ErrorKind::kCorrupt, "{}: offset 0: it is no WAV file", what);
  WavSound sound;
  for (std::size_t at = 12; bytes.size() - at >= kChunkHeader;) {
    const std::string_view name = text_at(bytes, at, 4);
    const std::uint64_t size = number_at(bytes, at + 4, 4), rest = bytes.size() - at - kChunkHeader;
    if (size > rest) {
      fail(ErrorKind::kCorrupt, "{}: offset {}: it is cut off: the chunk has {} bytes, {} are there", what, at, size,
           rest);
    }
    const ByteView chunk = bytes.subspan(at + kChunkHeader, static_cast<std::size_t>(size));
    if (name == "fmt ") sound = parse_format(chunk, at, what);
    if (name == "data") {
      take_samples(sound, chunk, at, what);
      return sound;
    }
    at += kChunkHeader + static_cast<std::size_t>(std::min(rest, size + size % 2));
  }
  fail(ErrorKind::kCorrupt, "{}: offset {}: it ends without samples", what, bytes.size());
}

double sample_at(const WavSound& sound, std::int64_t index) {
  const auto size = static_cast<std::size_t>(sound.bits / 8), channels = static_cast<std::size_t>(sound.channels);
  double sum = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    const std::size_t at = (static_cast<std::size_t>(index) * channels + c) * size;
    const auto bits = static_cast<std::uint32_t>(number_at(sound.samples, at, size));
    if (sound.floats) {
      sum += double{std::bit_cast<float>(bits)};
    } else if (sound.bits == 8) {
      sum += (static_cast<double>(bits) - 128) * 0x1p-7;  // the only ones without a sign
    } else {
      sum += static_cast<std::int32_t>(bits << (32 - sound.bits)) * 0x1p-31;
    }
  }
  return sum / sound.channels;
}

}  // namespace mlx::formats
