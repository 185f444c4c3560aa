// Random access into one stored file. Made by Store::open_blob.
#pragma once

#include <memory>

#include "base/hash.h"

namespace mlx::store {

struct StoreState;

// Random access into one stored file. Chunks are verified as they are read (kCorrupt names file and pack). If the file
// is read in order, it is verified as a whole before its last bytes are returned. Keeps the last chunk; not thread-safe
// (open one per thread). Outlived by its Store.
class BlobReader {
 public:
  ~BlobReader();
  BlobReader(BlobReader&&) noexcept;
  std::uint64_t size() const;
  const Digest& id() const;
  // Up to `count` bytes from `offset`; fewer only at the end.
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const;

 private:
  friend class Store;
  struct State;
  BlobReader(const StoreState& store, const Digest& id);  // kNotFound, kCorrupt
  std::unique_ptr<State> state_;
};

}  // namespace mlx::store
