// Finds objects in the packs of an S3 remote by the packs' trailing indexes. These never change: they are fetched once,
// kept in a folder and mapped. Used by remote.cpp; only find() is thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/parallel.h"
#include "base/path.h"
#include "store/disk.h"
#include "store/format/pack_format.h"
#include "store/remote/s3/catalogue.h"
#include "store/remote/s3/client.h"

namespace mlx::store::s3 {

struct Place {
  std::size_t pack = 0;  // number in packs()
  PackRecord record;
};

class PackTables {
 public:
  // `folder` "" keeps the indexes in a temporary folder. A kept index is used only if its SHA-256 is the pack's id.
  PackTables(Client& client, std::string folder, Disk& disk, Pool& network);
  // Fetches the indexes of packs that were not known before, several at once. kCorrupt if one is not what the catalogue
  // says. Returns the lost packs: those that are gone or have another size.
  std::vector<PackEntry> follow(const std::vector<PackEntry>& packs);
  // The same for packs that were just sent, whose indexes are kept: lost ones are there again.
  void take_sent(const std::vector<PackEntry>& packs);
  // Keeps the index of a pack that was just written to `path`, so that it need not be fetched.
  void keep(const PackEntry& pack, const std::string& path);

  // Asks the server once for the size of each of these packs (numbers in packs()). A pack that is gone or has another
  // size is lost: from then on nothing is found in it. Returns those that were not known to be lost.
  std::vector<PackEntry> look_at(const std::vector<std::size_t>& packs);
  std::vector<std::size_t> all() const;

  // Numbers of the packs that hold one of these objects; one may come several times.
  std::vector<std::size_t> holding(const std::vector<ObjectKey>& keys) const;
  std::vector<PackRecord> records_of(std::size_t pack) const;  // in the pack's order
  // From then on nothing is found in these packs.
  void forget(const std::vector<std::size_t>& packs);

  std::optional<Place> find(const ObjectKey& key) const;
  std::vector<Digest> of_kind(ObjectKind kind) const;
  const std::string& folder() const { return folder_; }
  const PackEntry& pack(std::size_t number) const { return packs_[number].entry; }

 private:
  struct Pack {
    PackEntry entry;
    MappedFile file;
    RecordTable table;
    bool seen = false, lost = false;  // by look_at()
  };
  // What is searched: the first eight bytes of each storage id, sorted.
  struct Slot {
    std::uint64_t start = 0;
    std::uint32_t pack = 0, record = 0;
    bool operator<(const Slot& other) const { return start < other.start; }
  };
  std::string path_of(const PackEntry& pack) const;
  bool open(const PackEntry& entry);
  std::vector<PackEntry> fetch(const std::vector<PackEntry>& packs);
  bool is_lost(const PackEntry& pack) const;  // asks
  void save(const PackEntry& entry, ByteView tail);

  Client& client_;
  std::string folder_;
  Disk& disk_;
  Pool& network_;
  std::unique_ptr<TempFolder> temporary_;
  std::vector<Pack> packs_;
  std::vector<Digest> known_;  // ids of packs_, sorted
  std::vector<Slot> slots_;
};

}  // namespace mlx::store::s3
