// The directory of a zip file: which files it holds and where. Bytes in, structure out; used by the reader of npz.
// Source: PKWARE's APPNOTE.TXT 6.3, with the 64-bit fields of section 4.5.3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace mlx::formats {

constexpr std::size_t kZipTail = 65536 + 22 + 20 + 56;  // longest comment, and the records that end the file
constexpr std::size_t kZipLocalHeader = 30;             // without the name and the extra fields that follow it

struct ZipDirectory {
  std::uint64_t begin = 0, size = 0;
};
// By the last kZipTail bytes of the file, or all of it. kCorrupt if the file has no end, or points outside of itself.
ZipDirectory find_zip_directory(ByteView tail, std::uint64_t file_size);

enum class ZipMethod : std::uint16_t { kStored = 0, kDeflated = 8 };

struct ZipEntry {
  std::string name;  // never a path to write to: nothing here writes files
  ZipMethod method{};
  bool encrypted = false;
  std::uint64_t header = 0;  // where its local header begins
  std::uint64_t stored_size = 0, plain_size = 0;
};
// kCorrupt if it is damaged, or an entry lies outside of the file.
std::vector<ZipEntry> parse_zip_directory(ByteView directory, std::uint64_t file_size);
// How many bytes the name and the extra fields after a local header take. kCorrupt if it is not one.
std::uint64_t zip_header_rest(ByteView local_header);

}  // namespace mlx::formats
