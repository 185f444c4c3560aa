// What is taken from a remote before anybody has vouched for it, in one place. A remote says how much there is; these
// say how much of that is believed, so that memory depends on what was asked for and never on what is claimed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx::store {

inline constexpr std::uint32_t kMaxOperationSize = std::uint32_t{16} << 20;  // plain bytes of one operation
inline constexpr std::size_t kMaxHeads = 4096;  // as many parents as the operation has that joins them
inline constexpr std::size_t kMaxOperations = std::size_t{4} << 20;  // that a remote may list: 128 MiB of ids

// Operations are read as a whole: their plain bytes may come to this much, and beyond it to so many times the bytes
// that were really sent.
inline constexpr std::uint64_t kOperationBudget = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kOperationRatio = 16;

inline constexpr std::size_t kReceiveSlice = std::size_t{1} << 14;        // objects that one batch gathers
inline constexpr std::uint64_t kHeldLists = std::uint64_t{64} << 20;      // bytes of chunk lists that wait for chunks
inline constexpr std::uint64_t kPublishSlice = std::uint64_t{256} << 20;  // stored bytes that one batch gathers

// A file whose size no version says: what is not believed above it is a list that names the same chunks again and
// again.
inline constexpr std::uint64_t kMaxUnannounced = std::uint64_t{1} << 30;
inline constexpr std::size_t kMaxNamedFile = std::size_t{2}
                                             << 20;  // bytes of heads, keys and their like as they stand on disk

// Operations that come in one fetch, counted before they are decoded.
class OperationIntake {
 public:
  // kCorrupt where it is too large, or all of them together are.
  void count(std::uint32_t plain_size, std::size_t stored_size, const char* where);

 private:
  std::uint64_t plain_ = 0, stored_ = 0;
};

}  // namespace mlx::store
