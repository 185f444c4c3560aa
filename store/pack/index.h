// Finds objects in packs, by the packs' own indexes and multi.idx over many of them, mapped if they are large. An Index
// is an immutable picture of the packs folder at one moment, shared by all readers; Store swaps in a new one when packs
// are added.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "store/disk.h"
#include "store/format/pack_format.h"
#include "store/pack/multi_index.h"
#include "store/pack/pins.h"

namespace mlx::store {

struct Location {
  PackRecord record;
  std::uint32_t pack = 0;  // number in Index::packs()
};

// A pack's index, mapped if it is large; kCorrupt if header, footer and index do not agree. The index's
// digest is compared with the pack's name, and recomputed only by verify().
class PackIndex {
 public:
  PackIndex(const std::string& path, const Digest& id);
  const RecordTable& table() const { return table_; }
  const PackFooter& footer() const { return footer_; }
  std::uint64_t file_size() const { return file_size_; }
  void verify(const std::string& path) const;

 private:
  std::uint64_t file_size_ = 0;
  Bytes copied_;
  MappedFile mapped_;
  ByteView index_;  // of one of these
  PackFooter footer_;
  RecordTable table_;
};

class Index {
 public:
  // Reads `folder` (packs/) as it is now; mappings of `previous` are reused. Packs whose index is damaged are in
  // broken(). Packs that are being removed, and those in `without`, are left out.
  static std::shared_ptr<const Index> load(const std::string& folder, const Index* previous,
                                           const PackSet& without = {});

  std::optional<Location> find(const ObjectKey& key) const;
  void visit(const std::function<void(const Location&)>& visit) const;  // objects in several packs come several times
  std::size_t pack_count() const { return packs_.size(); }
  const Digest& pack_id(std::size_t pack) const { return packs_[pack]; }
  bool has_pack(const Digest& id) const { return std::binary_search(packs_.begin(), packs_.end(), id); }
  std::string pack_path(std::size_t pack) const;
  const std::vector<std::string>& broken() const { return broken_; }  // one message each
  std::uint64_t records() const;
  // The stored bytes at a location; kCorrupt if the pack is too short, kIo if it cannot be read.
  void read_stored(const Location& location, Bytes& stored) const;
  void read_extra(const Location& location, Bytes& extra) const;  // the same for its extra bytes
  // The same with its checksum compared: an object as it goes to another pack or store.
  StoredObject read_object(const Location& location) const;
  std::vector<std::string> temporaries() const { return temporaries_; }

  // True if enough packs stand outside multi.idx that write_multi is worth it.
  bool wants_merge() const;
  bool has_multi() const { return multi_ != nullptr; }
  void write_multi(const std::string& temporary, Disk& disk) const;

 private:
  struct Single {
    std::shared_ptr<const PackIndex> index;
    std::uint32_t pack;
  };
  static std::shared_ptr<const Index> load_once(const std::string& folder, const Index* previous,
                                                const PackSet& without);
  std::uint32_t multi_pack(std::uint64_t record) const;
  std::shared_ptr<const Fd> pack_fd(std::uint32_t pack) const;
  void read_part(const Location& location, std::uint64_t offset, Bytes& part) const;

  std::string folder_;
  std::vector<Digest> packs_;  // sorted
  std::vector<Single> singles_;
  std::shared_ptr<const MultiIndex> multi_;
  std::vector<std::uint32_t> multi_to_pack_;
  std::vector<std::string> broken_;
  std::vector<std::string> temporaries_;
  mutable std::mutex fds_mutex_;
  mutable std::unordered_map<std::uint32_t, std::shared_ptr<const Fd>> fds_;
};

}  // namespace mlx::store
