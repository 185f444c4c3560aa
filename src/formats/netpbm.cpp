// The file is a header of words and comments, one white space, and the pixels.

#include "formats/netpbm.h"

#include "base/error.h"

namespace mlx::formats {
namespace {

constexpr std::int64_t kLargestSide = 1 << 20;

class Header {
 public:
  Header(ByteView bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  // The next number, behind white space and comments.
  std::int64_t number(const char* name) {
    skip();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    while (at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9' && value <= kLargestSide)
      value = 10 * value + (bytes_[at_++] - '0');
    if (at_ == begin || value < 1 || value > kLargestSide)
      fail(ErrorKind::kCorrupt, "{}: offset {}: expected the {}, a number from 1 to {}", what_, begin, name,
           kLargestSide);
    return value;
  }
  // Behind the one white space that ends the header.
  std::size_t end() {
    if (at_ >= bytes_.size() || !is_space(bytes_[at_]))
      fail(ErrorKind::kCorrupt, "{}: offset {}: expected white space before the pixels", what_, at_);
    return at_ + 1;
  }

 private:
  static bool is_space(std::uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
  void skip() {
    for (; at_ < bytes_.size(); ++at_) {
      if (bytes_[at_] == '#') {
        while (at_ < bytes_.size() && bytes_[at_] != '\n') ++at_;
      } else if (!is_space(bytes_[at_])) {
        return;
      }
    }
  }

  ByteView bytes_;
  std::string_view what_;
  std::size_t at_ = 2;  // behind the magic number
};

[[noreturn]] void refuse_kind(std::string_view what, std::string_view found) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {} is not read, only PGM (P5) and PPM (P6) of 8 bits", what, found),
              "convert it, for example: magick FILE -depth 8 FILE.ppm");
}

}  // namespace

bool is_netpbm(ByteView bytes) {
  return bytes.size() >= 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7';
}

NetpbmImage parse_netpbm(ByteView bytes, std::string_view what) {
  if (!is_netpbm(bytes)) fail(ErrorKind::kCorrupt, "{}: offset 0: expected P5 or P6", what);
  if (bytes[1] != '5' && bytes[1] != '6') refuse_kind(what, fmt::format("P{}", static_cast<char>(bytes[1])));
  NetpbmImage image;
  image.channels = bytes[1] == '5' ? 1 : 3;
  Header header(bytes, what);
  image.width = header.number("width");
  image.height = header.number("height");
  const std::int64_t largest = header.number("largest value");
  if (largest != 255) refuse_kind(what, fmt::format("a largest value of {}", largest));
  image.pixels = bytes.subspan(header.end());
  const auto expected = static_cast<std::uint64_t>(image.width * image.height * image.channels);
  if (image.pixels.size() != expected) {
    fail(ErrorKind::kCorrupt, "{}: {}x{}x{} pixels are {} bytes, the file has {}", what, image.height, image.width,
         image.channels, expected, image.pixels.size());
  }
  return image;
}

}  // namespace mlx::formats
