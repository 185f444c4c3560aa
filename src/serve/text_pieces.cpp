// See text_pieces.h.
#include "serve/text_pieces.h"

#include "base/json.h"

namespace mlx::serve {
namespace {

// How many bytes at the end begin a character and do not complete it.
std::size_t begun(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return back < length ? back : 0;
  }
  return 0;
}

std::string valid(const std::string& bytes) {
  const std::string quoted = Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace

std::string TextPieces::add(std::string_view bytes) {
  std::string all = begun_ + std::string(bytes);
  begun_ = all.substr(all.size() - begun(all));
  all.resize(all.size() - begun_.size());
  return valid(all);
}

std::string TextPieces::whole(const std::string& bytes) {
  return valid(bytes);
}

std::string TextPieces::rest() {
  return valid(std::exchange(begun_, {}));
}

}  // namespace mlx::serve
