// SHA-256 of several streams at once on one core. A single stream leaves half of a processor's SHA unit idle (each
// round waits for the one before), so two are taken in turns: about 1.7 times the bytes a second. Used to hash a large
// file's pieces and the file itself; everything else hashes through base/hash.h, and both agree.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "base/hash.h"

namespace mlx {

// One stream, fed in pieces. Not thread-safe.
class LaneHash {
 public:
  LaneHash();
  Digest finish();  // afterwards the object is as new

 private:
  friend class Lane;
  friend void update_lanes(std::span<LaneHash* const> streams, std::span<const ByteView> pieces);
  // In the order in which the processor's instructions hold them: F E B A and H G D C.
  std::array<std::uint32_t, 4> abef_, cdgh_;
  std::array<std::uint8_t, 64> rest_;  // what does not fill a block yet
  std::size_t rest_size_ = 0;
  std::uint64_t total_ = 0;
  std::optional<Sha256> fallback_;  // on processors without SHA instructions
};

// Feeds pieces[i] to streams[i], each stream at most once, beginning with the first.
void update_lanes(std::span<LaneHash* const> streams, std::span<const ByteView> pieces);

}  // namespace mlx
