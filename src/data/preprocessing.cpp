// Checks photos before a model takes them.

#include "data/preprocessing.h"

#include "base/error.h"
#include "formats/wav.h"

namespace mlx::data {

void check_photo(ByteView file, const std::string& name, const Preprocessing& preprocessing) {
  if (preprocessing.takes_sounds() != formats::is_wav(file)) {
    fail(ErrorKind::kUsage, "{}: {}", name,
         preprocessing.takes_sounds() ? "it is no WAV file, and the model takes sounds"
                                      : "it is a sound, and the model takes pictures");
  }
  if (preprocessing.fit) return;
  const PictureHeader header = read_picture_header(file, name);
  const Preprocessing& p = preprocessing;
  if (header.height == p.height && header.width == p.width && header.channels == p.channels) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: {}x{}x{}, but the model takes images of {}x{}x{} (height, width, channels)", name,
                          header.height, header.width, header.channels, p.height, p.width, p.channels),
              "scale it first, or train on photos: such a model scales them itself");
}

}  // namespace mlx::data
