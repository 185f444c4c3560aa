// Small things about ASCII text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mlx {

// Without blanks (space, tab, CR, LF) at its ends; a view into `text`.
std::string_view trimmed(std::string_view text);
std::string lower(std::string_view text);                        // A-Z only; other bytes stay
std::string grouped(std::uint64_t number);                       // "12,345"
std::string counted(std::uint64_t count, const char* singular);  // "1 file", "12,345 files"
// One word of a POSIX shell's command line that means `text`: as it is where it needs no quotes. For commands that
// people are told to type, and those that other programs are told to run.
std::string shell_quoted(std::string_view text);

}  // namespace mlx
