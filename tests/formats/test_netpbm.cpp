// PGM and PPM headers: what is read, and what is refused with its offset.
#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "formats/netpbm.h"

using namespace mlx;

namespace {

formats::NetpbmImage parse(const std::string& text) {
  static std::string kept;  // the pixels are a view
  kept = text;
  return formats::parse_netpbm(as_bytes(kept), "x");
}

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.message;
  }
  return "(nothing was refused)";
}

}  // namespace

TEST_CASE("grey and colour are read, with comments and any white space") {
  const formats::NetpbmImage grey = parse("P5 # c\n#d\n3\t2\n255\nabcdef");
  CHECK(grey.width == 3);
  CHECK(grey.height == 2);
  CHECK(grey.channels == 1);
  CHECK(as_text(grey.pixels) == "abcdef");
  const formats::NetpbmImage colour = parse("P6 1 1 255 rgb");
  CHECK(colour.channels == 3);
  CHECK(as_text(colour.pixels) == "rgb");
  CHECK(as_text(parse("P5 1 1 255\n\n").pixels) == "\n");  // one white space, then pixels
}

TEST_CASE("damage is refused") {
  CHECK(refusal("P5").find("offset 2: expected the width") != std::string::npos);
  CHECK(refusal("P5 0 1 255 ").find("expected the width") != std::string::npos);
  CHECK(refusal("P5 99999999999999999999 1 255 ").find("expected the width") != std::string::npos);
  CHECK(refusal("P5 1 -1 255 a").find("expected the height") != std::string::npos);
  CHECK(refusal("P5 1 1 255").find("white space before the pixels") != std::string::npos);
  CHECK(refusal("P5 2 2 255 abc").find("4 bytes, the file has 3") != std::string::npos);
  CHECK(refusal("P5 2 2 255 abcde").find("4 bytes, the file has 5") != std::string::npos);
  CHECK(refusal("P2 1 1 255 7").find("P2 is not read") != std::string::npos);
  CHECK(refusal("P6 1 1 1023 rgbrgb").find("1023") != std::string::npos);
  CHECK(refusal("GIF").find("expected P5 or P6") != std::string::npos);
}
