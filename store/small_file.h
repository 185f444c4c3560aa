// Small files that everything else hangs on (a store's layout, a remote's heads, keys): kept twice, as NAME and
// NAME.copy, each behind a line with the SHA-256 of what follows (mlx-format-remote(5), SMALL FILES), so that damage is
// seen and one copy mends the other. Used by folder remotes, the S3 remote and the store's own layout.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/bytes.h"
#include "store/disk.h"

namespace mlx::store {

// With its line of check in front; and what stands behind the line, nullopt where that is not what the line says.
Bytes with_check(ByteView content);
std::optional<Bytes> without_check(ByteView whole);
bool has_check(ByteView whole);  // begins with such a line, right or wrong

struct SmallFile {
  enum class State {
    kAbsent,     // neither copy is there
    kWhole,      // both are there and say the same
    kHalf,       // one is whole, the other missing, damaged or older: `content` is that of the whole one
    kUnchecked,  // a single file without a line of check, as earlier versions wrote it: nobody vouches for `content`
    kLost,       // no copy is whole
  };
  State state = State::kAbsent;
  Bytes content;
  bool readable() const { return state != State::kAbsent && state != State::kLost; }
};
// What two copies come to, each nullopt where it is missing.
SmallFile settle_copies(const std::optional<Bytes>& first, const std::optional<Bytes>& second);
std::string copy_of(const std::string& name);  // "NAME.copy"

SmallFile read_small_file(const std::string& path);

struct SmallFileOptions {
  std::string temporary;  // a path beside it that nobody else writes to at the same time; what stands there goes
  mode_t mode = 0;        // 0: as the process makes files
  bool shred = false;     // overwrites the bytes that it replaces (replace_shredding)
};
// A single file without a line of check, replaced as a whole and durably.
void replace_file(Disk& disk, const std::string& path, ByteView content, const SmallFileOptions& options);
// Both copies, one durable before the other is touched: at any instant one at least is whole.
void write_small_file(Disk& disk, const std::string& path, ByteView content, const SmallFileOptions& options);

}  // namespace mlx::store
