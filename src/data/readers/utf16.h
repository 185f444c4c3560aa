// Text in UTF-16 as a stream of UTF-8, and single characters as UTF-8. Used by sources of text and by dialects of CSV.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/readers/byte_stream.h"
#include "data/readers/source.h"

namespace mlx::data {

void append_utf8(std::string& out, std::uint32_t point);
// By the byte order mark of either order.
bool is_utf16(ByteView head);
// Without the byte order mark. The stream throws kCorrupt with `file` and the offset for half a surrogate pair or half
// a unit; `source` must outlive it.
std::unique_ptr<ByteStream> read_utf16(const Source& source, const std::string& file);

}  // namespace mlx::data
