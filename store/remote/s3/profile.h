// The files of Amazon's own tools (~/.aws/credentials and ~/.aws/config): sections of keys, parsed from text by a pure
// function. Used by settings.cpp.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mlx::store::s3 {

using Section = std::map<std::string, std::string>;
using Sections = std::map<std::string, Section>;

// "[NAME]" and "key = value" lines; '#' and ';' begin comments at a line's start, and behind white space. Indented
// lines below "key =" are keys of its own and come as "key.inner". Keys are in lower case. If a key occurs
// twice, the later one holds. kUsage with file and line for anything else; values are never in a message.
Sections parse_profiles(std::string_view text, const std::string& file);

}  // namespace mlx::store::s3
