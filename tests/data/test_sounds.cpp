// WAV files and their spectrograms against what librosa makes of the same (tests/data/make_sounds.py), and hostile
// ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "data/images/decode.h"
#include "data/images/photo.h"
#include "data/preprocessing.h"
#include "data/sounds/resample.h"
#include "data/sounds/spectrogram.h"
#include "formats/wav.h"

using namespace mlx;
using namespace mlx::data;

namespace {

const std::string kSounds = std::string(MLX_SOURCE_DIR) + "/tests/data/sounds/";

void append_number(Bytes& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

// What stands in the header, right or wrong.
struct WavHeader {
  std::uint64_t encoding = 1, channels = 1, rate = 16000, bits = 16;
  std::optional<std::uint64_t> told{};  // the size of the samples, if it is not their own
};

Bytes wav(const WavHeader& header, const Bytes& samples) {
  Bytes out = to_bytes("RIFF");
  append_number(out, 36 + samples.size(), 4);
  for (const char c : std::string("WAVEfmt ")) out.push_back(static_cast<std::uint8_t>(c));
  const std::uint64_t frame = header.channels * header.bits / 8;
  append_number(out, 16, 4), append_number(out, header.encoding, 2), append_number(out, header.channels, 2),
      append_number(out, header.rate, 4);
  append_number(out, header.rate * frame, 4), append_number(out, frame, 2), append_number(out, header.bits, 2);
  for (const char c : std::string("data")) out.push_back(static_cast<std::uint8_t>(c));
  append_number(out, header.told.value_or(samples.size()), 4);
  out.insert(out.end(), samples.begin(), samples.end());
  return out;
}

// 16-bit samples of a function of the time in seconds.
Bytes sound_of(std::int64_t rate, double seconds, const std::function<double(double)>& at) {
  Bytes samples;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(seconds * static_cast<double>(rate)); ++i) {
    const double value = at(static_cast<double>(i) / static_cast<double>(rate));
    append_number(samples, static_cast<std::uint64_t>(static_cast<std::int64_t>(std::lround(value * 32767))), 2);
  }
  return wav({.rate = static_cast<std::uint64_t>(rate)}, samples);
}

double tone(double t) {
  return 0.5 * std::sin(2 * std::numbers::pi * 1000 * t);
}

Bytes spectrogram_of(ByteView file, std::int64_t bands, std::int64_t frames) {
  Bytes out(static_cast<std::size_t>(bands * frames));
  prepare_photo(file, "name", {bands, frames, 1, Fit::kSpectrogram}, out.data());
  return out;
}

// The kind of the error and its message.
std::pair<ErrorKind, std::string> failure_of_sound(ByteView file) {
  std::pair<ErrorKind, std::string> direct, decoded;
  const auto call = [](auto& into, const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      into = {error.kind, error.message};
      CHECK_MESSAGE(error.message.starts_with("name: "), error.message);
    }
  };
  call(direct, [&] { (void)spectrogram_of(file, 8, 4); });
  call(decoded, [&] { (void)decode_picture(file, "name"); });
  CHECK(direct.first == decoded.first);
  return direct;
}

}  // namespace

TEST_CASE("sounds: every encoding has librosa's spectrogram, to half a decibel") {
  for (const char* const name : {"u8", "s16", "s24", "s32", "f32", "stereo", "extensible", "extensible_f32"}) {
    CAPTURE(name);
    const Bytes file = read_file(kSounds + name + ".wav");
    CHECK(is_picture(file));
    const Picture expected = decode_picture(read_file(kSounds + name + ".pgm"), name, {.channels = 1});
    const Picture picture = decode_picture(file, name, {.channels = 1});
    CHECK(read_picture_header(file, name).width == expected.width);
    REQUIRE(picture.height == kUsualBands);
    REQUIRE(picture.width == expected.width);
    int furthest = 0, other = 0;
    for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
      const int apart = std::abs(picture.pixels[i] - expected.pixels[i]);
      furthest = std::max(furthest, apart), other += apart > 0 ? 1 : 0;
    }
    CHECK(furthest <= 1);  // a level that lies between two steps
    CHECK(other <= 1);
    CHECK(spectrogram_of(file, picture.height, picture.width) == picture.pixels);
  }
}

// Where a band ends, in hertz: Slaney's scale is logarithmic above 1 kHz.
double end_of_band(std::int64_t band) {
  const double mel = (15 + 27 * std::log(8.0) / std::log(6.4)) * static_cast<double>(band + 2) / (kUsualBands + 1);
  return mel < 15 ? mel * 200 / 3 : 1000 * std::pow(6.4, (mel - 15) / 27);
}

// libsoxr's filter is steeper at half the lower rate, and rings longer where the sound begins and ends.
TEST_CASE("sounds: of other rates the spectrogram is that of libsoxr's samples, to half a decibel up to 0.8 of it") {
  for (const std::int64_t rate : {8000, 11025, 22050, 44100, 48000}) {
    CAPTURE(rate);
    const std::string name = fmt::format("rate{}", rate);
    const Picture expected = decode_picture(read_file(kSounds + name + ".pgm"), name, {.channels = 1});
    const Picture picture = decode_picture(read_file(kSounds + name + ".wav"), name, {.channels = 1});
    REQUIRE(picture.width == expected.width);
    int furthest = 0, bands = 0;
    for (std::int64_t band = 0; band < kUsualBands; ++band) {
      if (end_of_band(band) > 0.8 * static_cast<double>(std::min(rate, kSoundRate)) / 2) continue;
      ++bands;
      for (std::int64_t x = 1; x + 2 < picture.width; ++x) {
        const auto i = static_cast<std::size_t>((kUsualBands - 1 - band) * picture.width + x);
        furthest = std::max(furthest, std::abs(picture.pixels[i] - expected.pixels[i]));
      }
    }
    CHECK(bands >= 42);
    CHECK(furthest <= 1);
  }
}

TEST_CASE("sounds: a tone sounds the same at every rate, at its level and in its band") {
  const Bytes expected = spectrogram_of(sound_of(16000, 0.5, tone), 64, 50);
  // 1 kHz is 15 of 45.25 mel: the tip of band 22 of 65 has 15.3. Half of full scale is -6 dB, and two bands share it.
  const auto loudest = std::ranges::max_element(expected, {}, [](std::uint8_t v) { return v; }) - expected.begin();
  CHECK(63 - loudest / 50 == 21);
  CHECK(std::abs(expected[static_cast<std::size_t>((63 - 21) * 50 + 25)] - 2 * (120 - 6)) <= 4);
  for (const std::int64_t rate : {4000, 8000, 11025, 12000, 22050, 24000, 32000, 44100, 48000, 96000, 176400, 192000}) {
    CAPTURE(rate);
    const Bytes pixels = spectrogram_of(sound_of(rate, 0.5, tone), 64, 50);
    for (std::int64_t y = 63 - 24; y < 63 - 18; ++y)
      CHECK(std::abs(pixels[static_cast<std::size_t>(y * 50 + 25)] - expected[static_cast<std::size_t>(y * 50 + 25)]) <=
            1);
  }
}

TEST_CASE("sounds: resampled samples are the tone's own, to a thousandth") {
  for (const std::int64_t rate : {8000, 11025, 44100, 48000}) {
    CAPTURE(rate);
    const Bytes file = sound_of(rate, 0.25, tone);
    const Resampled sound(formats::parse_wav(file, "name"), "name");
    CHECK(sound.count() == 4000);
    double furthest = 0;
    for (std::int64_t i = 200; i < 3800; ++i)
      furthest = std::max(furthest, std::abs(sound.at(i) - tone(static_cast<double>(i) / 16000)));
    CHECK(furthest < 1e-3);
    CHECK(sound.at(-1) == 0);
    CHECK(sound.at(4000) == 0);
  }
}

TEST_CASE("sounds: a longer one is cut, a shorter one is followed by silence, and no sample is too few") {
  const Bytes file = sound_of(16000, 0.2, tone);
  const Bytes whole = spectrogram_of(file, 40, 20), begin = spectrogram_of(file, 40, 7),
              more = spectrogram_of(file, 40, 30);
  for (std::int64_t y = 0; y < 40; ++y) {
    const auto row = [&](const Bytes& of, std::int64_t width, std::int64_t count) {
      const auto at = of.begin() + y * width;
      return Bytes(at, at + count);
    };
    CHECK(row(begin, 7, 7) == row(whole, 20, 7));
    CHECK(row(more, 30, 20) == row(whole, 20, 20));
    CHECK(Bytes(more.begin() + y * 30 + 22, more.begin() + y * 30 + 30) == Bytes(8));  // behind the last window
  }
  Bytes one;
  append_number(one, 16384, 2);
  CHECK(read_picture_header(wav({}, one), "name").width == 1);
  const Bytes click = spectrogram_of(wav({}, one), 8, 2);
  CHECK(click[0] > 0);
  CHECK(click[1] > 0);                                              // 10 ms before the middle of the second window
  CHECK(spectrogram_of(wav({}, Bytes(3200)), 8, 10) == Bytes(80));  // silence
}

TEST_CASE("sounds: every band of every number of bands hears something") {
  Bytes noise;
  std::uint32_t state = 1;
  for (int i = 0; i < 1600; ++i) append_number(noise, (state = state * 1664525 + 1013904223) >> 16, 2);
  for (std::int64_t bands = 1; bands <= kMostBands; bands += bands < 8 ? 1 : 23) {
    CAPTURE(bands);
    const Bytes pixels = spectrogram_of(wav({}, noise), bands, 10);
    CHECK(std::ranges::min(pixels) > 0);
  }
}

TEST_CASE("sounds: hostile files are refused, with the place, and allocate nothing") {
  using Kind = ErrorKind;
  const auto says = [](const Bytes& file, Kind kind, const std::string& text) {
    const auto found = failure_of_sound(file);
    CHECK(found.first == kind);
    CHECK_MESSAGE(found.second.find(text) != std::string::npos, found.second);
  };
  const Bytes samples(64, 1);
  says(wav({}, {}), Kind::kCorrupt, "offset 36: it has no sample");
  says(wav({.told = 65}, samples), Kind::kCorrupt, "offset 36: it is cut off: the chunk has 65 bytes, 64 are there");
  says(wav({.told = 0xFFFFFFFF}, samples), Kind::kCorrupt, "it is cut off");
  says(wav({.told = 63}, samples), Kind::kCorrupt, "63 bytes of samples are no multiple of 2");
  says(wav({.encoding = 2}, samples), Kind::kUsage, "encoding 2 with 16 bits is not read");
  says(wav({.encoding = 3}, samples), Kind::kUsage, "encoding 3 with 16 bits");
  says(wav({.bits = 12}, samples), Kind::kUsage, "encoding 1 with 12 bits");
  says(wav({.channels = 6}, samples), Kind::kUsage, "6 channels");
  says(wav({.channels = 0}, samples), Kind::kUsage, "0 channels");
  for (const std::uint64_t rate : {0ULL, 3999ULL, 44101ULL, 200000ULL, 0xFFFFFFFFULL})
    says(wav({.rate = rate}, samples), Kind::kUsage, fmt::format("a rate of {} Hz is not read", rate));
  says(wav({.encoding = 0xFFFE}, samples), Kind::kCorrupt, "names no known encoding");
  Bytes wrong = wav({}, samples);
  wrong[32] = 3;
  says(wrong, Kind::kCorrupt, "a frame of 3 bytes does not hold 1 channels of 16 bits");
  Bytes early = to_bytes("RIFF....WAVEdata");
  append_number(early, 4, 4), append_number(early, 0, 4);
  says(early, Kind::kCorrupt, "samples stand before their format");
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Bytes floats(40);
    append_number(floats, std::bit_cast<std::uint32_t>(value), 4);
    says(wav({.encoding = 3, .bits = 32}, floats), Kind::kCorrupt, "sample 10 is no finite number");
  }
  const Bytes good = wav({}, samples);
  for (std::size_t kept = 12; kept < good.size(); ++kept) {
    CAPTURE(kept);
    CHECK(failure_of_sound(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(kept))).first ==
          Kind::kCorrupt);
  }
  CHECK(spectrogram_of(good, 4, 1).size() == 4);
}

TEST_CASE("sounds: of an hour only the beginning is read, and as a whole picture it is too wide") {
  Bytes hour(std::size_t{3600} * 8000, 128);
  for (std::size_t i = 8000; i < hour.size(); ++i) hour[i] = static_cast<std::uint8_t>(i * i % 251);
  const Bytes file = wav({.rate = 8000, .bits = 8}, hour);
  CHECK(read_picture_header(file, "name").width == 360000);
  CHECK(spectrogram_of(file, 64, 90) == Bytes(std::size_t{64} * 90));
  CHECK_THROWS_WITH_AS(decode_picture(file, "name", {.max_pixels = 1 << 20}), doctest::Contains("64 x 360000 pixels"),
                       Error);
}

TEST_CASE("sounds: other chunks are passed over, and what stands behind the samples counts for nothing") {
  const Bytes plain = sound_of(16000, 0.05, tone);
  Bytes file(plain.begin(), plain.begin() + 12);
  for (const char c : std::string("LIST")) file.push_back(static_cast<std::uint8_t>(c));
  append_number(file, 3, 4), append_number(file, 0x00434241, 4);  // three bytes and one that pads
  file.insert(file.end(), plain.begin() + 12, plain.end());
  append_number(file, 0x21212121, 4);
  CHECK(spectrogram_of(file, 64, 5) == spectrogram_of(plain, 64, 5));
}

TEST_CASE("sounds: a model of sounds takes no picture, and one of pictures no sound") {
  const Bytes sound = sound_of(16000, 0.05, tone), picture = read_file(kSounds + "s16.pgm");
  Preprocessing model{64, 10, 1, {}, {}, {}, Fit::kSpectrogram};
  check_photo(sound, "name", model);
  CHECK_THROWS_WITH_AS(check_photo(picture, "name", model), "name: it is no WAV file, and the model takes sounds",
                       Error);
  model.fit = Fit::kSqueeze;
  check_photo(picture, "name", model);
  CHECK_THROWS_WITH_AS(check_photo(sound, "name", model), "name: it is a sound, and the model takes pictures", Error);
  model.fit.reset();
  CHECK_THROWS_WITH_AS(check_photo(sound, "name", model), "name: it is a sound, and the model takes pictures", Error);
}
