// See html.h.
#include "base/html.h"

#include "base/bytes.h"

namespace mlx {

std::string html_escaped(std::string_view text) {
  const bool valid = is_utf8(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        const bool bad = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f || (byte >= 0x80 && !valid);
        if (bad) {
          out += "\uFFFD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

}  // namespace mlx
