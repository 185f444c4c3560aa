// Line by line; a nested table is known by its indentation.
#include "store/remote/s3/profile.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace mlx::store::s3 {

namespace {

constexpr std::string_view kBlank = " \t\r";

std::string_view without_comment(std::string_view value) {
  for (std::size_t i = 1; i < value.size(); ++i) {
    if ((value[i] == '#' || value[i] == ';') && kBlank.find(value[i - 1]) != kBlank.npos) return value.substr(0, i);
  }
  return value;
}

// "profile  dev" and "profile dev" are one name.
std::string section_name(std::string_view inside) {
  std::string out;
  for (const char c : trimmed(inside)) {
    if (kBlank.find(c) == kBlank.npos) {
      out += c;
    } else if (out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

}  // namespace

Sections parse_profiles(std::string_view text, const std::string& file) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  Sections sections;
  Section* section = nullptr;
  std::string outer;  // the key with an empty value that indented lines belong to
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view raw = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), raw.size() + 1));
    const std::string_view line = trimmed(raw);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const std::size_t end = line.find(']');
      if (end == line.npos) fail(ErrorKind::kUsage, "{}:{}: a section without ']'", file, number);
      section = &sections[section_name(line.substr(1, end - 1))];
      outer.clear();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == line.npos || equals == 0) fail(ErrorKind::kUsage, "{}:{}: not a line 'key = value'", file, number);
    if (!section) fail(ErrorKind::kUsage, "{}:{}: a key before the first section", file, number);
    const std::string key = lower(trimmed(line.substr(0, equals)));
    const std::string value(trimmed(without_comment(line.substr(equals + 1))));
    const bool indented = kBlank.find(raw[0]) != kBlank.npos;
    if (indented && !outer.empty()) {
      (*section)[outer + "." + key] = value;
      continue;
    }
    outer = value.empty() ? key : std::string();
    (*section)[key] = value;
  }
  return sections;
}

}  // namespace mlx::store::s3
