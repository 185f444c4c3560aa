// The members of a tar file: which files it holds and where. Bytes in, structure out; used by the reader of shards.
// Source: POSIX.1-2017, pax, sections "ustar Interchange Format" and "pax Header Block"; GNU tar's manual, "Basic Tar
// Format" (long names, sizes in base 256).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/bytes.h"

namespace mlx::formats {

constexpr std::size_t kTarBlock = 512;
constexpr std::uint64_t kMostTarMembers = std::uint64_t{1} << 20;

struct TarMember {
  std::string name;  // relative, UTF-8, without "." and ".."; never a path to write to: nothing here writes files
  std::uint64_t header = 0;           // where its own header begins
  std::uint64_t begin = 0, size = 0;  // of its data, which lies inside of the file
};

// Up to `count` bytes of the tar file from `offset`; fewer only at its end.
using TarRead = std::function<std::size_t(std::uint64_t offset, void* to, std::size_t count)>;

// Visits the regular files in order, and reads nothing but headers; folders are passed over. `file` begins the message
// of each error: kCorrupt if the archive is damaged, cut off, has more than kMostTarMembers members, or a member whose
// name is absolute or has ".."; kUsage for links, devices and sparse files.
void read_tar(const TarRead& read, std::uint64_t file_size, const std::string& file,
              const std::function<void(TarMember&& member)>& visit);

}  // namespace mlx::formats
