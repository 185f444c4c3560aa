// Verification of every byte that is stored: packs one by one (check_pack.h), files against their ids, the index over
// many packs. Reports, and throws only where the folder itself cannot be read.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/fd.h"
#include "store/check_pack.h"
#include "store/store_state.h"

namespace mlx::store {

namespace {

using DigestSet = std::unordered_set<Digest, DigestHash>;

// A chunk list's id is the id of a file, so only the file's content shows that it is the right one. What an interrupted
// fetch has left without all chunks says nothing about damage, and a damaged chunk nothing about its list. A message,
// or "".
std::string check_list(const Store& store, const Digest& file, const DigestSet& damaged) {
  try {
    if (!store.has_whole_blob(file)) return {};
    bool whole = true;
    store.visit_reachable_blob(file, [&](ObjectKind, const Digest& id) { whole = whole && !damaged.contains(id); });
    if (!whole) return {};
    BlobReader reader = store.open_blob(file);
    Sha256 hash;
    Bytes buffer(std::size_t{1} << 20);
    for (std::uint64_t offset = 0; offset < reader.size();) {
      check_interrupted();
      std::size_t count = reader.read_at(offset, buffer.data(), buffer.size());
      hash.update(ByteView(buffer).first(count));
      offset += count;
    }
    if (hash.finish() == file) return {};
    return fmt::format("chunk list of {}: its chunks are not the file's content", file.brief());
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) throw;
    return error.message;
  }
}

// nullptr where nobody can unlock it: checksums are verified all the same.
std::shared_ptr<const KeyRing> unlocked_ring(const Store::State& store) {
  try {
    return store.ring();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kRefused) throw;
    return nullptr;
  }
}

}  // namespace

FsckReport Store::fsck(Progress& progress) const {
  std::shared_ptr<const Index> index = state_->index();
  std::shared_ptr<const KeyRing> ring = unlocked_ring(*state_);
  std::vector<PackCheck> results(index->pack_count());
  progress.begin("Checking packs", results.size(), "packs");
  state_->pool.run(static_cast<std::int64_t>(results.size()), [&](std::int64_t pack) {
    auto i = static_cast<std::size_t>(pack);
    auto codec = state_->codecs.lend();
    results[i] = check_pack(index->pack_path(i), index->pack_id(i), *codec.get(), state_->read_base(), ring.get());
    progress.advance(1);
  });
  progress.end();
  FsckReport report;
  std::vector<std::pair<Digest, std::size_t>> lists;  // and the pack
  for (std::size_t pack = 0; pack < results.size(); ++pack) {
    const PackCheck& result = results[pack];
    if (result.gone) continue;
    report.packs += 1;
    report.objects += result.objects;
    report.bytes += result.bytes;
    report.locked += result.locked;
    report.problems.insert(report.problems.end(), result.problems.begin(), result.problems.end());
    if (!result.problems.empty()) report.damaged_packs.push_back(index->pack_id(pack));
    for (const ObjectKey& key : result.damaged)
      report.damaged_objects.push_back({index->pack_id(pack), key.kind, key.id});
    for (const Digest& list : result.lists) lists.emplace_back(list, pack);
  }
  DigestSet damaged;
  for (const DamagedObject& object : report.damaged_objects) damaged.insert(object.id);
  std::vector<std::string> messages(lists.size());
  progress.begin("Checking files", lists.size(), "files");
  state_->pool.run(static_cast<std::int64_t>(lists.size()), [&](std::int64_t i) {
    auto n = static_cast<std::size_t>(i);
    messages[n] = check_list(*this, lists[n].first, damaged);
    progress.advance(1);
  });
  progress.end();
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (messages[i].empty()) continue;
    report.problems.push_back(messages[i]);
    report.damaged_packs.push_back(index->pack_id(lists[i].second));
    report.damaged_objects.push_back({report.damaged_packs.back(), ObjectKind::kChunkList, lists[i].first});
  }
  std::ranges::sort(report.damaged_packs);
  report.damaged_packs.erase(std::unique(report.damaged_packs.begin(), report.damaged_packs.end()),
                             report.damaged_packs.end());
  for (const DamagedObject& object : report.damaged_objects) report.damaged.push_back(object.id);
  std::ranges::sort(report.damaged);
  report.damaged.erase(std::unique(report.damaged.begin(), report.damaged.end()), report.damaged.end());
  for (std::string& problem : verify_multi(state_->packs_folder)) {
    report.problems.push_back(std::move(problem));
    report.multi_damaged = true;
  }
  return report;
}

}  // namespace mlx::store
