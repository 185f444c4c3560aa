// Tokens' bytes as pieces of text that are UTF-8 each: a character that is spread over several tokens comes with the
// last of them. Bytes that are no UTF-8 become U+FFFD, as `mlx predict --json` writes them.
#pragma once

#include <string>
#include <string_view>

namespace mlx::serve {

class TextPieces {
 public:
  std::string add(std::string_view bytes);
  std::string rest();                                  // of a character that was cut off by the end
  static std::string whole(const std::string& bytes);  // of a text that is alone

 private:
  std::string begun_;  // the first bytes of a character
};

}  // namespace mlx::serve
