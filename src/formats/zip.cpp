// Reads the records at the end of a zip file.
#include "formats/zip.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::formats {
namespace {

constexpr std::uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::size_t kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the value stands in a 64-bit field
constexpr std::uint16_t kFields64 = 1;

[[noreturn]] void bad_zip(const char* why) {
  throw Error(ErrorKind::kCorrupt, fmt::format("zip: {}", why), "the file may be cut off");
}

// Of the last end record whose comment reaches exactly to the end of the file.
std::size_t find_end(ByteView tail) {
  for (std::size_t at = tail.size() < kEndSize ? 0 : tail.size() - kEndSize + 1; at-- > 0;) {
    if (load_little_endian<std::uint32_t>(tail.data() + at) == kEndMark &&
        load_little_endian<std::uint16_t>(tail.data() + at + 20) == tail.size() - at - kEndSize)
      return at;
  }
  bad_zip("the file has no directory");
}

// Replaces the sizes that do not fit 32 bits.
void read_fields64(ByteView extra, ZipEntry& entry) {
  ByteReader in(extra, "zip: extra fields");
  while (in.left() >= 4) {
    const std::uint16_t id = in.u16();
    const std::uint16_t size = in.u16();
    ByteReader field(in.take(size), "zip: 64-bit sizes");
    if (id != kFields64) continue;
    for (std::uint64_t* value : {&entry.plain_size, &entry.stored_size, &entry.header})
      if (*value == kIn64) *value = field.u64();
  }
}

}  // namespace

ZipDirectory find_zip_directory(ByteView tail, std::uint64_t file_size) {
  const std::size_t end = find_end(tail);
  ZipDirectory found{load_little_endian<std::uint32_t>(tail.data() + end + 16),
                     load_little_endian<std::uint32_t>(tail.data() + end + 12)};
  const bool wide = end >= kLocatorSize + kEnd64Size &&
                    load_little_endian<std::uint32_t>(tail.data() + end - kLocatorSize) == kLocator64Mark;
  if (wide) {
    const std::uint8_t* const record = tail.data() + end - kLocatorSize - kEnd64Size;
    if (load_little_endian<std::uint32_t>(record) != kEnd64Mark) bad_zip("its 64-bit directory is not at the end");
    found = {load_little_endian<std::uint64_t>(record + 48), load_little_endian<std::uint64_t>(record + 40)};
  }
  if (found.begin > file_size || found.size > file_size - found.begin)
    bad_zip("the directory lies outside of the file");
  return found;
}

std::vector<ZipEntry> parse_zip_directory(ByteView directory, std::uint64_t file_size) {
  std::vector<ZipEntry> entries;
  ByteReader in(directory, "zip: directory");
  while (!in.at_end()) {
    if (in.u32() != kEntryMark) in.corrupt("an entry does not begin with its mark");
    in.u32();  // versions
    ZipEntry& entry = entries.emplace_back();
    entry.encrypted = (in.u16() & 1) != 0;
    entry.method = static_cast<ZipMethod>(in.u16());
    in.take(8);  // time, date and checksum
    entry.stored_size = in.u32();
    entry.plain_size = in.u32();
    const std::uint16_t name = in.u16(), extra = in.u16(), comment = in.u16();
    in.take(8);  // disk and attributes
    entry.header = in.u32();
    entry.name = as_text(in.take(name));
    read_fields64(in.take(extra), entry);
    in.take(comment);
    if (entry.header > file_size || entry.stored_size > file_size - entry.header)
      bad_zip("an entry lies outside of the file");
  }
  return entries;
}

std::uint64_t zip_header_rest(ByteView local_header) {
  ByteReader in(local_header, "zip: local header");
  if (in.u32() != kLocalMark) in.corrupt("an entry does not begin with its mark");
  in.take(22);
  const std::uint64_t name = in.u16();
  return name + in.u16();
}

}  // namespace mlx::formats
