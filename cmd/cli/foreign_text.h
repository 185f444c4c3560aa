// Text that others wrote (names, messages, paths, what remotes, git and ssh say), made harmless for a terminal. The one
// place that does so: all that is printed but contents (Context::out) goes through shown() or json_text().
//
// What a terminal would act on is shown as \xNN, byte by byte: control characters (C0, DEL, and C1 in UTF-8 too), bytes
// that are not UTF-8, and the characters of Unicode that turn the direction of writing around, break lines or are not
// seen.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace mlx::cmd {

std::string printable(std::string_view text);  // one line: ends of lines and tabs are shown as well

// `text` in a colour for shown(). The marks hold a number that only this process knows: nobody else's text has them.
std::string painted(const char* code, std::string_view text);

// Lines: ends of lines and tabs stay, and what painted() marked is in its colour.
std::string shown(std::string_view text);

// A document as text; `indent` as nlohmann has it. What shown() would change stands as \uNNNN: the same strings. Names
// that are not UTF-8 have replacement characters, for JSON has no other way.
std::string json_text(const Json& document, int indent);

}  // namespace mlx::cmd
