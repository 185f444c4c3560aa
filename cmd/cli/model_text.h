// What a model writes, as a terminal may show it. A model from elsewhere could send sequences that change the terminal,
// so control characters but line feeds and tabs become '?', and so do bytes that begin no character. All else is left:
// scripts need characters that foreign_text.h shows as bytes. Characters may come in parts. A file or a pipe gets what
// the model wrote.
#pragma once

#include <string>
#include <string_view>

namespace mlx::cmd {

class ModelText {
 public:
  explicit ModelText(bool terminal) : terminal_(terminal) {}
  static ModelText of_stdout();  // as standard output is
  std::string shown(std::string_view piece);

 private:
  char shown(char byte);

  bool terminal_;
  bool after_c2_ = false;  // the last byte was 0xC2, with which U+0080 to U+009F begin
  int left_ = 0;           // bytes of a character that are to come
};

}  // namespace mlx::cmd
