// Text as Python has it: characters, case, blanks, and how values are written. Used by all of jinja/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/jinja/value.h"

namespace mlx::infer::jinja {

std::int64_t characters(std::string_view text);
// In time that is linear, whatever the texts; npos: not found.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);
bool is_blank(char32_t code);  // str.isspace()
// Without characters of `set` at its ends; nullopt: without blanks.
std::string_view stripped(std::string_view text, bool left, bool right, std::optional<std::string_view> set = {});
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> by, std::int64_t most);
std::vector<std::string_view> lines_of(std::string_view text);  // str.splitlines()
std::string replaced(std::string_view text, std::string_view old, std::string_view fresh, std::int64_t most,
                     Budget& budget);

// Refuse characters whose case other tables than ours would tell.
std::string uppercase(std::string_view text);
std::string lowercase(std::string_view text);
std::string titlecase(std::string_view text);        // str.title()
std::string capitalized(std::string_view text);      // str.capitalize()
std::string titlecase_words(std::string_view text);  // the filter `title`

std::string number_text(double value);                     // repr(float)
void append_repr(std::string& to, std::string_view text);  // repr(str)
// A string literal without its quotes, escapes replaced.
std::string unescaped(std::string_view literal);

}  // namespace mlx::infer::jinja
