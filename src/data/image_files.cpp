// Reads one file at a time; its first bytes tell the format.

#include "data/image_files.h"

#include <fcntl.h>

#include "base/error.h"
#include "base/fd.h"
#include "formats/netpbm.h"

namespace mlx::data {
namespace {

IdxImages read_netpbm(const std::string& path) {
  const Bytes bytes = read_file(path);
  const formats::NetpbmImage image = formats::parse_netpbm(bytes, path);
  return {1, image.height, image.width, image.channels, {image.pixels.begin(), image.pixels.end()}};
}

}  // namespace

IdxImages read_image_file(const std::string& path, Progress& progress) {
  const Fd fd = open_file(path, O_RDONLY);
  Bytes magic(4);
  magic.resize(read_at(fd.get(), magic.data(), magic.size(), 0, path));
  if (formats::is_netpbm(magic)) return read_netpbm(path);
  const bool gzip = magic.size() >= 2 && magic[0] == 0x1F && magic[1] == 0x8B;
  const bool idx = magic.size() == 4 && magic[0] == 0 && magic[1] == 0;
  if (!gzip && !idx) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: neither PGM, PPM nor IDX", path),
                "convert it, for example: magick FILE -depth 8 FILE.ppm");
  }
  return read_idx_images(
      [&](std::uint64_t offset, void* data, std::size_t count) { return read_at(fd.get(), data, count, offset, path); },
      path, progress);
}

}  // namespace mlx::data
