// One sorted list over all tables, 16 bytes an object, so that a look-up need not search every pack. Kept files are not
// synced: if a power loss tears one, its SHA-256 shows that, and it is fetched again.
#include "store/remote/s3/pack_tables.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "store/temporary.h"

namespace mlx::store::s3 {

namespace {

std::uint64_t start_of(const Digest& id) {
  std::uint64_t start = 0;
  for (int i = 0; i < 8; ++i) start = start << 8 | id.bytes[static_cast<std::size_t>(i)];
  return start;
}

// kCorrupt unless these are the trailing index and footer of this pack.
void check_tail(ByteView tail, const PackEntry& entry, const std::string& where) {
  if (tail.size() != entry.tail_size())
    fail(ErrorKind::kCorrupt, "{}: its index has another size than the catalogue says", where);
  const ByteView index = tail.first(tail.size() - kFooterSize);
  const PackFooter footer = decode_footer(tail.last(kFooterSize), entry.size, where);
  if (footer.records != entry.records || footer.index_offset != entry.size - entry.tail_size() ||
      footer.index_digest != entry.id || Digest::of(index) != entry.id) {
    fail(ErrorKind::kCorrupt, "{}: its index is not the one that the pack's id names", where);
  }
}

}  // namespace

PackTables::PackTables(Client& client, std::string folder, Disk& disk, Pool& network)
    : client_(client), folder_(std::move(folder)), disk_(disk), network_(network) {
  if (folder_.empty()) {
    temporary_ = std::make_unique<TempFolder>();
    folder_ = temporary_->path();
  }
  make_folders(folder_);
  remove_stale_temporaries(folder_, list_folder(folder_), disk_);
}

std::string PackTables::path_of(const PackEntry& pack) const {
  return join_path(folder_, pack.id.hex() + ".idx");
}

// Takes the index from the folder; false if it is not there, or damaged.
bool PackTables::open(const PackEntry& entry) {
  const std::string path = path_of(entry);
  if (!path_exists(path)) return false;
  Pack pack{entry, MappedFile(path), {}};
  try {
    check_tail(pack.file.bytes(), entry, path);
    pack.table = RecordTable(pack.file.bytes().first(kFanoutSize + entry.records * kRecordSize), entry.records, path);
  } catch (const Error& error) {
    log("{}; fetched again", error.message);
    return false;
  }
  for (std::uint64_t i = 0; i < entry.records; ++i) {
    slots_.push_back(
        {start_of(pack.table.at(i).key.id), static_cast<std::uint32_t>(packs_.size()), static_cast<std::uint32_t>(i)});
  }
  packs_.push_back(std::move(pack));
  return true;
}

std::vector<PackEntry> PackTables::follow(const std::vector<PackEntry>& packs) {
  std::vector<PackEntry> absent, fresh;
  for (const PackEntry& pack : packs) {
    if (!std::ranges::binary_search(known_, pack.id)) fresh.push_back(pack);
  }
  if (fresh.empty()) return {};
  const auto sorted_before = static_cast<std::ptrdiff_t>(slots_.size());
  std::ranges::copy_if(fresh, std::back_inserter(absent), [&](const PackEntry& pack) { return !open(pack); });
  const std::vector<PackEntry> lost = fetch(absent);
  for (const PackEntry& pack : absent) {
    if (std::ranges::find(lost, pack) == lost.end() && !open(pack))
      fail(ErrorKind::kIo, "{}: cannot be kept", path_of(pack));
  }
  for (const PackEntry& pack : fresh) known_.push_back(pack.id);
  std::ranges::sort(known_);
  std::sort(slots_.begin() + sorted_before, slots_.end());
  std::inplace_merge(slots_.begin(), slots_.begin() + sorted_before, slots_.end());
  return lost;
}

void PackTables::take_sent(const std::vector<PackEntry>& packs) {
  for (const PackEntry& sent : packs) {
    const auto at = std::ranges::find(packs_, sent.id, [](const Pack& pack) { return pack.entry.id; });
    if (at != packs_.end()) {
      at->lost = false;
    } else {
      std::erase(known_, sent.id);
    }
  }
  (void)follow(packs);
}

bool PackTables::is_lost(const PackEntry& pack) const {
  return client_.size_of("packs/" + pack.id.hex() + ".pack") != pack.size;
}

std::vector<PackEntry> PackTables::fetch(const std::vector<PackEntry>& packs) {
  std::vector<PackEntry> lost;
  std::mutex mutex;
  network_.run(static_cast<std::int64_t>(packs.size()), [&](std::int64_t i) {
    client_.interruption().check();
    const PackEntry& entry = packs[static_cast<std::size_t>(i)];
    const std::string name = "packs/" + entry.id.hex() + ".pack";
    try {
      const Bytes tail = client_.get_range(name, entry.size - entry.tail_size(), entry.tail_size());
      check_tail(tail, entry, client_.url_of(name));
      std::lock_guard lock(mutex);
      save(entry, tail);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
      if (!is_lost(entry)) throw;
      std::lock_guard lock(mutex);
      lost.push_back(entry);
    }
  });
  return lost;
}

void PackTables::save(const PackEntry& entry, ByteView tail) {
  TemporaryFiles temporaries(folder_, disk_);
  const std::string temporary = temporaries.next();
  disk_.write(disk_.create(temporary), tail, temporary);
  disk_.rename(temporary, path_of(entry));
  temporaries.published(temporary);
}

void PackTables::keep(const PackEntry& pack, const std::string& path) {
  const MappedFile file(path);
  save(pack, file.bytes().last(pack.tail_size()));
}

std::vector<PackEntry> PackTables::look_at(const std::vector<std::size_t>& packs) {
  std::vector<std::size_t> unseen;
  std::ranges::copy_if(packs, std::back_inserter(unseen), [&](std::size_t pack) { return !packs_[pack].seen; });
  network_.run(static_cast<std::int64_t>(unseen.size()), [&](std::int64_t i) {
    client_.interruption().check();
    Pack& pack = packs_[unseen[static_cast<std::size_t>(i)]];
    pack.lost = is_lost(pack.entry);
    pack.seen = true;
  });
  std::vector<PackEntry> lost;
  for (const std::size_t pack : unseen) {
    if (packs_[pack].lost) lost.push_back(packs_[pack].entry);
  }
  return lost;
}

std::vector<std::size_t> PackTables::all() const {
  std::vector<std::size_t> packs(packs_.size());
  std::iota(packs.begin(), packs.end(), std::size_t{0});
  return packs;
}

std::vector<std::size_t> PackTables::holding(const std::vector<ObjectKey>& keys) const {
  std::vector<std::size_t> packs;
  for (const ObjectKey& key : keys) {
    const Slot wanted{start_of(key.id)};
    for (auto slot = std::lower_bound(slots_.begin(), slots_.end(), wanted);
         slot != slots_.end() && slot->start == wanted.start; ++slot) {
      if (!packs_[slot->pack].lost && packs_[slot->pack].table.at(slot->record).key == key) packs.push_back(slot->pack);
    }
  }
  std::ranges::sort(packs);
  packs.erase(std::unique(packs.begin(), packs.end()), packs.end());
  return packs;
}

std::vector<PackRecord> PackTables::records_of(std::size_t pack) const {
  std::vector<PackRecord> records;
  for (std::uint64_t i = 0; i < packs_[pack].entry.records; ++i) records.push_back(packs_[pack].table.at(i));
  std::ranges::sort(records, {}, &PackRecord::offset);
  return records;
}

void PackTables::forget(const std::vector<std::size_t>& packs) {
  for (const std::size_t pack : packs) packs_[pack].lost = true;
}

std::optional<Place> PackTables::find(const ObjectKey& key) const {
  const Slot wanted{start_of(key.id)};
  for (auto slot = std::lower_bound(slots_.begin(), slots_.end(), wanted);
       slot != slots_.end() && slot->start == wanted.start; ++slot) {
    if (packs_[slot->pack].lost) continue;
    const PackRecord record = packs_[slot->pack].table.at(slot->record);
    if (record.key == key) return Place{slot->pack, record};
  }
  return std::nullopt;
}

std::vector<Digest> PackTables::of_kind(ObjectKind kind) const {
  std::vector<Digest> ids;
  for (const Pack& pack : packs_) {
    if (pack.lost) continue;
    for (std::uint64_t i = 0; i < pack.entry.records; ++i) {
      const PackRecord record = pack.table.at(i);
      if (record.key.kind == kind) ids.push_back(record.key.id);
    }
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace mlx::store::s3
