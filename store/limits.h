// Limits on what is taken from a remote before it is verified, in one place. A remote claims sizes and counts; with
// these limits, memory depends on what was asked for, never on what is claimed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx::store {

inline constexpr std::uint32_t kMaxOperationSize = std::uint32_t{16} << 20;  // plain bytes of one operation
inline constexpr std::size_t kMaxHeads = 4096;                       // the operation that joins them names all of them
inline constexpr std::size_t kMaxOperations = std::size_t{4} << 20;  // listed by a remote: 128 MiB of ids

// Operations are read as a whole. Their plain bytes may total the budget, and beyond it this many times the bytes that
// were really sent.
inline constexpr std::uint64_t kOperationBudget = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kOperationRatio = 16;

inline constexpr std::size_t kReceiveSlice = std::size_t{1} << 14;        // objects in one batch
inline constexpr std::uint64_t kHeldLists = std::uint64_t{64} << 20;      // bytes of chunk lists waiting for chunks
inline constexpr std::uint64_t kPublishSlice = std::uint64_t{256} << 20;  // stored bytes in one batch

// The largest file whose size no version gives: a small list that repeats the same chunks could claim any size.
inline constexpr std::uint64_t kMaxUnannounced = std::uint64_t{1} << 30;
inline constexpr std::size_t kMaxNamedFile = std::size_t{2}
                                             << 20;  // bytes of heads, keys and other small files on disk

// Counts the operations of one fetch before they are decoded.
class OperationIntake {
 public:
  // kCorrupt if it, or the total, is too large.
  void count(std::uint32_t plain_size, std::size_t stored_size, const char* where);

 private:
  std::uint64_t plain_ = 0, stored_ = 0;
};

}  // namespace mlx::store
