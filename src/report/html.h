// Writing HTML. Every value goes through escape(), so that names stay text. Used by the sections.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace mlx::report {

// For text and for attributes in double quotes; control characters and invalid UTF-8 becomes U+FFFD.
std::string escape(std::string_view text);
std::string percent(double share, int digits = 2);  // "92.71 %"
std::string count(double value);                    // "12,345"
std::string bytes(std::uint64_t value);             // "1.23 MB", powers of ten

struct Table {
  struct Column {
    std::string title;
    bool number = false;  // right-aligned, with digits of one width
  };
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // HTML, escaped by the caller
};
std::string to_html(const Table& table);
// A figure in a tile, with a word above and a note below; all HTML, escaped by the caller.
std::string tile(const std::string& label, const std::string& value, const std::string& note);
std::string bar(double share);  // a bar of which so much is filled
std::string section(std::string_view id, std::string_view title, std::string_view content);

// What stands before and after the content of a page, with its style.
std::string page_head(const std::string& title);
std::string page_end();

extern const char* const kStyle;  // style.cpp

}  // namespace mlx::report
