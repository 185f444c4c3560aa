// Writes one pack under a temporary name. Used by Batch, repair and gc, which rename it into place; not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/parallel.h"
#include "store/disk.h"
#include "store/format/pack_format.h"

namespace mlx::store {

class PackWriter {
 public:
  // With `behind`, that thread writes what append() gathers, so that callers who hold a lock wait for memory and not
  // for the disk. Call behind->wait(), which rethrows its errors, before seal(), which writes the rest itself.
  PackWriter(std::string path, Disk& disk, Background* behind = nullptr);
  void append(const StoredObject& object);
  std::uint64_t size() const { return size_; }  // without index and footer
  const std::string& path() const { return path_; }
  // Writes index and footer and syncs; the pack's id. Nothing may be appended afterwards.
  Digest seal();

 private:
  void flush();
  std::string path_;
  Disk& disk_;
  Background* behind_;
  Fd fd_;
  Bytes buffer_;
  std::uint64_t size_ = 0;
  std::vector<PackRecord> records_;
};

// Reads a sealed pack back from disk and verifies index and checksums. kIo / kCorrupt.
void verify_pack(const std::string& path, const Digest& id);

}  // namespace mlx::store
