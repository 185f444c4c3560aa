// Bodies of requests that come compressed (RFC 9110, 8.4; RFC 1952). Used by http/connection.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlx::serve {

// Whether decoded_body() knows a Content-Encoding: gzip, or identity, which is none.
bool known_encoding(std::string_view encoding);
// The body as it was before. Throws RefusedRequest: 413 once it has more than `most` bytes, 400 for what is no gzip.
std::string decoded_body(std::string_view encoding, std::string body, std::size_t most);

}  // namespace mlx::serve
