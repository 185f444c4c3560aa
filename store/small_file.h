// Small files that everything else depends on (a store's layout, a remote's heads, keys). They are kept twice, as NAME
// and NAME.copy, each behind a line with the SHA-256 of the rest (mlx-format-remote(5), SMALL FILES), so that damage is
// noticed and one copy repairs the other. Used by folder remotes, the S3 remote and the store's own layout.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/bytes.h"
#include "store/disk.h"

namespace mlx::store {

// Adds the check line in front; and returns what is behind it, nullopt if the check does not match.
Bytes with_check(ByteView content);
std::optional<Bytes> without_check(ByteView whole);
bool has_check(ByteView whole);  // begins with a check line, matching or not

struct SmallFile {
  enum class State {
    kAbsent,     // no copy exists
    kWhole,      // both copies are whole and equal
    kHalf,       // one is whole, the other absent, damaged or older: `content` is from the whole one
    kUnchecked,  // a single file without a check line, as earlier versions wrote it: `content` may be damaged
    kLost,       // no copy is whole
  };
  State state = State::kAbsent;
  Bytes content;
  bool readable() const { return state != State::kAbsent && state != State::kLost; }
};
// The result of two copies, each nullopt if absent.
SmallFile settle_copies(const std::optional<Bytes>& first, const std::optional<Bytes>& second);
std::string copy_of(const std::string& name);  // "NAME.copy"

SmallFile read_small_file(const std::string& path);

struct SmallFileOptions {
  std::string temporary;  // a path beside it that nobody else uses; an old file there is removed
  mode_t mode = 0;        // 0: as the process makes files
  bool shred = false;     // overwrites the replaced bytes (replace_shredding)
};
// Replaces a single file without a check line, as a whole and durably.
void replace_file(Disk& disk, const std::string& path, ByteView content, const SmallFileOptions& options);
// Writes both copies, one after the other is durable: at any instant at least one is whole.
void write_small_file(Disk& disk, const std::string& path, ByteView content, const SmallFileOptions& options);

}  // namespace mlx::store
