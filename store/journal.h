// The append-only journal of operation objects (mlx-format-journal(5)): framed, checksummed records, each synced before
// the transaction that applies it. A crash may leave a torn last record, which the next writer cuts off; damage
// anywhere else is kCorrupt.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "store/disk.h"

namespace mlx::store {

class Journal {
 public:
  Journal(std::string path, Disk& disk) : path_(std::move(path)), disk_(disk) {}
  Digest append(ByteView operation);                      // durable when it returns; the digest of the bytes
  void append_all(const std::vector<Bytes>& operations);  // one sync for all; with none it only cuts off a torn record
  // Appends what `produce` hands over, a few at a time; each batch is synced. If anything throws, none of them stays.
  using Take = std::function<void(Bytes&& operation)>;
  void append_each(const std::function<void(const Take& take)>& produce);
  // In order of writing. Returns the length of the valid part: behind it is a torn or damaged last record.
  std::uint64_t visit(const std::function<void(const Digest&, ByteView)>& visit) const;

 private:
  using Append = std::function<void(const std::vector<Bytes>& operations)>;
  void append(bool only_mend, const std::function<void(const Append& append)>& produce);
  std::string path_;
  Disk& disk_;
};

}  // namespace mlx::store
