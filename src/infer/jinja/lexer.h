// A template's text in tokens, with the blanks around its tags taken away as transformers has it: a line that has
// only a tag leaves nothing (trim_blocks, lstrip_blocks). Used by parser.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlx::infer::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    kData,           // of the output, as it is
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kName,
    kString,  // without quotes, escapes replaced
    kInteger,
    kNumber,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  int line = 1;
  std::string text;
};

// The last token is kEnd. Throws Fault; `line` is then the line of the fault.
std::vector<Token> tokens_of(std::string_view source, int& line);

}  // namespace mlx::infer::jinja
