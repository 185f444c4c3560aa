// Decoding, turning and scaling of pictures against what Pillow makes of the same (tests/data/make_pictures.py).
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "data/images/decode.h"
#include "data/images/resize.h"

using namespace mlx;
using namespace mlx::data;

namespace {

const std::string kPictures = std::string(MLX_SOURCE_DIR) + "/tests/data/pictures/";

// Lines of pictures.txt that begin with `kind`, without it.
std::vector<std::string> expected_of(const std::string& kind) {
  std::ifstream table(std::string(MLX_SOURCE_DIR) + "/tests/data/pictures.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(table, line);)
    if (line.starts_with(kind + " ")) lines.push_back(line.substr(kind.size() + 1));
  REQUIRE(!lines.empty());
  return lines;
}

std::string sum_of(const Picture& picture) {
  return to_hex(Digest::of(picture.pixels).bytes);
}

Picture made_up(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Picture picture{height, width, channels, {}};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c)
        picture.pixels.push_back(static_cast<std::uint8_t>(x * 7 + y * 13 + c * 31 + x * y * (c + 3)));
  return picture;
}

ErrorKind kind_of_decoding(ByteView file, const DecodeOptions& options = {}) {
  try {
    decode_picture(file, "name", options);
  } catch (const Error& error) {
    CHECK_MESSAGE(error.message.starts_with("name: "), error.message);
    return error.kind;
  }
  return ErrorKind{};
}

}  // namespace

TEST_CASE("pictures: files of every format decode to Pillow's pixels, upright") {
  for (const std::string& line : expected_of("file")) {
    std::istringstream fields(line);
    std::string name, sum;
    std::int64_t height = 0, width = 0;
    fields >> name >> height >> width >> sum;
    CAPTURE(name);
    const Bytes file = read_file(kPictures + name);
    CHECK(is_picture(file));
    const PictureHeader header = read_picture_header(file, name);
    CHECK(header.height == height);
    CHECK(header.width == width);
    CHECK(header.channels ==
          (name.starts_with("grey") || name == "bits.png" || name == "bits.bmp" || name == "fax.tif" ? 1 : 3));
    CHECK(sum_of(decode_picture(file, name)) == sum);
    CHECK(decode_picture(file, name, {.channels = 1}).pixels.size() == static_cast<std::size_t>(height * width));
  }
}

TEST_CASE("pictures: scaled to Pillow's bytes, with boxes, larger and smaller, of one row and one column") {
  for (const std::string& line : expected_of("resize")) {
    CAPTURE(line);
    std::istringstream fields(line);
    std::int64_t height = 0, width = 0, channels = 0, to_height = 0, to_width = 0;
    Box box;
    std::string sum;
    fields >> height >> width >> channels >> box.left >> box.top >> box.right >> box.bottom >> to_height >> to_width >>
        sum;
    CHECK(sum_of(resize(made_up(height, width, channels), box, to_height, to_width)) == sum);
  }
}

TEST_CASE("pictures: what is cut off, damaged or none is corrupt and named") {
  CHECK(kind_of_decoding({}) == ErrorKind::kCorrupt);
  CHECK(kind_of_decoding(as_bytes("a text")) == ErrorKind::kCorrupt);
  for (const char* const name :
       {"420.jpg", "progressive.jpg", "rgb.png", "lossy.webp", "lossless.webp", "lzw.tif", "rgb.bmp", "rgb.ppm"}) {
    const Bytes file = read_file(kPictures + name);
    for (const std::size_t kept : {file.size() / 4, file.size() / 2, file.size() - 9}) {
      CAPTURE(name);
      CAPTURE(kept);
      CHECK(kind_of_decoding(ByteView(file).first(kept)) == ErrorKind::kCorrupt);
    }
  }
}

TEST_CASE("pictures: the limit on pixels holds before anything is allocated") {
  CHECK(kind_of_decoding(read_file(kPictures + "rgb.png"), {.max_pixels = 100}) == ErrorKind::kUsage);
  Bytes bomb = read_file(kPictures + "rgb.bmp");  // 16384 x 16384 in a few hundred bytes
  bomb[18] = bomb[22] = 0, bomb[19] = bomb[23] = 64;
  CHECK(kind_of_decoding(bomb) == ErrorKind::kCorrupt);
}

TEST_CASE("pictures: a JPEG is decoded at the smallest scale that is still enough") {
  const Bytes file = read_file(kPictures + "420.jpg");  // 13 x 21
  const auto height = [&](std::int64_t enough) {
    return decode_picture(file, "name", {.enough_height = enough, .enough_width = enough}).height;
  };
  CHECK(height(2) == 2);
  CHECK(height(3) == 4);
  CHECK(height(7) == 7);
  CHECK(height(8) == 13);
  CHECK(height(50) == 13);
}

TEST_CASE("pictures: the middle crop, also of very thin pictures") {
  CHECK(center_box(256, 256, 256, 224, 224) == Box{16, 16, 240, 240});
  const Box box = center_box(1, 100000, 256, 224, 224);
  CHECK(box.bottom - box.top <= 1);
  CHECK(box.right - box.left <= 1);
  CHECK(resize(made_up(1, 1000, 3), center_box(1, 1000, 256, 224, 224), 224, 224).pixels.size() == 224 * 224 * 3);
  CHECK(center_box(10, 10, 8, 20, 4) == Box{2.5, 0, 7.5, 10});
}
