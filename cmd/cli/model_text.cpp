#include "cmd/cli/model_text.h"

#include <unistd.h>

namespace mlx::cmd {

ModelText ModelText::of_stdout() {
  return ModelText(::isatty(STDOUT_FILENO) != 0);
}

std::string ModelText::shown(std::string_view piece) {
  if (!terminal_) return std::string(piece);
  std::string out;
  for (const char byte : piece) out += shown(byte);
  return out;
}

char ModelText::shown(char byte) {
  constexpr unsigned kContinues = 0x80, kTwo = 0xC2, kThree = 0xE0, kFour = 0xF0, kBeyond = 0xF5, kAfterC1 = 0xA0;
  const unsigned code = static_cast<unsigned char>(byte);
  if (code >= kContinues && code < kTwo) {
    const bool shows = left_ > 0 && !(after_c2_ && code < kAfterC1);
    if (left_ > 0) --left_;
    after_c2_ = false;
    return shows ? byte : '?';
  }
  after_c2_ = code == kTwo;
  left_ = code < kTwo || code >= kBeyond ? 0 : code < kThree ? 1 : code < kFour ? 2 : 3;
  const bool control = (code < ' ' && byte != '\n' && byte != '\t') || code == 0x7F || code >= kBeyond;
  return control ? '?' : byte;
}

}  // namespace mlx::cmd
