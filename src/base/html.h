// Text in pages. Used by reports and by the server's page.
#pragma once

#include <string>
#include <string_view>

namespace mlx {

// For text and for attributes in double quotes; control characters and invalid UTF-8 becomes U+FFFD.
std::string html_escaped(std::string_view text);

}  // namespace mlx
