// The picture of a sound, where no network asks for its own shape: the whole spectrogram with the usual bands.

#include "formats/wav.h"
#include "base/error.h"
#include "data/images/codecs/codec.h"
#include "data/sounds/spectrogram.h"

namespace mlx::data {

void decode_wav(PictureRequest* request) {
  try {
    const formats::WavSound sound = formats::parse_wav({request->file, request->size}, "its chunks");
    const std::int64_t frames = frames_of(sound, "its format");
    if (!take_size(request, kUsualBands, frames, 1, 0) || request->header_only) return;
    std::uint8_t* const pixels = allocate_pixels(request, kUsualBands, frames, 1);
    if (pixels) write_spectrogram(sound, "its samples", kUsualBands, frames, pixels);
  } catch (const Error& error) {
    const bool damaged = error.kind == ErrorKind::kCorrupt;
    refuse(request, damaged ? PictureProblem::kDamaged : PictureProblem::kUnsupported, "%s", error.message.c_str());
  }
}

}  // namespace mlx::data
