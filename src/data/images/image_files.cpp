// Reads one file at a time; its first bytes tell the format.

#include "data/images/image_files.h"

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

// A format of files that hold one image. A new one is a parser in src/formats, a reader above and a row.
struct ImageFormat {
  const char* name;
  bool (*is)(ByteView magic);  // of the first four bytes, or fewer if the file is shorter
  IdxImages (*read)(const std::string& path);
};
constexpr ImageFormat kFormats[] = {
    {"PGM, PPM", formats::is_netpbm, read_netpbm},
};

std::string format_names() {
  std::string names;
  for (const ImageFormat& format : kFormats) names += fmt::format("{}, ", format.name);
  return names + "IDX";
}

}  // namespace

IdxImages read_image_file(const std::string& path, Progress& progress) {
  const Fd fd = open_file(path, O_RDONLY);
  Bytes magic(4);
  magic.resize(read_at(fd.get(), magic.data(), magic.size(), 0, path));
  for (const ImageFormat& format : kFormats)
    if (format.is(magic)) return format.read(path);
  const bool gzip = magic.size() >= 2 && magic[0] == 0x1F && magic[1] == 0x8B;
  const bool idx = magic.size() == 4 && magic[0] == 0 && magic[1] == 0;
  if (!gzip && !idx) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: none of {}", path, format_names()),
                "photos are JPEG, PNG, WebP, TIFF, BMP, PGM or PPM");
  }
  return read_idx_images(
      [&](std::uint64_t offset, void* data, std::size_t count) { return read_at(fd.get(), data, count, offset, path); },
      path, progress);
}

}  // namespace mlx::data
