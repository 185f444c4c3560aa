// multi.idx: one sorted table over many packs, so that a store with thousands of packs opens and answers like one with
// a few. It is a cache: damaged or outdated ones are ignored, and a writer makes a new one when enough packs stand
// outside it.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "store/index.h"

namespace mlx::store {

namespace {

constexpr std::string_view kMagic = "MLXMULTI";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderSize = 64;
// Merging costs a rewrite of all records: done for 8 packs at least, and for a quarter of what is merged already.
constexpr std::size_t kMergeAtLeast = 8;

}  // namespace

std::shared_ptr<const Index::Multi> Index::open_multi(const std::string& path) {
  if (!path_exists(path)) return nullptr;
  try {
    auto multi = std::make_shared<Multi>();
    multi->file = MappedFile(path);
    ByteView bytes = multi->file.bytes();
    ByteReader in(bytes, path);
    if (as_text(in.take(8)) != kMagic) in.corrupt("wrong magic");
    if (in.u32() != kVersion) in.corrupt("unknown version");
    std::uint64_t packs = in.u32();
    std::uint64_t records = in.u64();
    in.take(8);
    Digest table_digest = Digest::from(in.take(32));
    if (records > bytes.size() / kRecordSize ||
        bytes.size() != kHeaderSize + 32 * packs + kFanoutSize + records * (kRecordSize + 4)) {
      in.corrupt("sizes do not add up");
    }
    ByteView table = in.take(32 * packs);
    if (Digest::of(table) != table_digest) in.corrupt("pack table is damaged");
    for (std::uint64_t i = 0; i < packs; ++i) multi->ids.push_back(Digest::from(table.subspan(32 * i, 32)));
    multi->table = RecordTable(in.take(kFanoutSize + records * kRecordSize), records, path);
    multi->pack_numbers = in.take(4 * records);
    return multi;
  } catch (const Error& error) {
    log("index over many packs is ignored: {}", error.message);
    return nullptr;
  }
}

std::uint32_t Index::multi_pack(std::uint64_t record) const {
  ByteReader in(multi_->pack_numbers.subspan(4 * record, 4));
  std::uint32_t number = in.u32();
  if (number >= multi_to_pack_.size()) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: record {} names a pack that is not in its table", join_path(folder_, "multi.idx"), record),
        "delete this file: it is made anew");
  }
  return multi_to_pack_[number];
}

bool Index::wants_merge() const {
  return broken_.empty() && singles_.size() >= std::max(kMergeAtLeast, multi_to_pack_.size() / 4);
}

void Index::write_multi(const std::string& temporary, Disk& disk) const {
  std::vector<Location> all;
  all.reserve(records());
  visit([&](const Location& location) { all.push_back(location); });
  std::sort(all.begin(), all.end(), [](const Location& a, const Location& b) {
    return a.record.key != b.record.key ? a.record.key < b.record.key : a.pack < b.pack;
  });
  auto same = [](const Location& a, const Location& b) { return a.record.key == b.record.key; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());

  ByteWriter table;
  for (const Digest& id : packs_) table.raw(id.bytes);
  ByteWriter out;
  out.raw(as_bytes(kMagic));
  out.u32(kVersion);
  out.u32(static_cast<std::uint32_t>(packs_.size()));
  out.u64(all.size());
  out.u64(0);
  out.raw(Digest::of(table.bytes()).bytes);
  out.raw(table.bytes());
  std::vector<PackRecord> sorted;
  sorted.reserve(all.size());
  for (const Location& location : all) sorted.push_back(location.record);
  encode_fanout(out, sorted);
  for (const PackRecord& record : sorted) encode_record(out, record);
  for (const Location& location : all) out.u32(location.pack);

  Fd fd = disk.create(temporary);
  disk.write(fd, out.bytes(), temporary);
  disk.sync(fd, temporary);
  disk.rename(temporary, join_path(folder_, "multi.idx"));
}

std::vector<std::string> Index::verify_multi() const {
  if (!multi_) return {};
  std::vector<std::string> problems;
  std::uint64_t wrong = 0;
  std::vector<std::shared_ptr<const PackIndex>> opened(packs_.size());
  for (std::uint64_t i = 0; i < multi_->table.size(); ++i) {
    try {
      PackRecord record = multi_->table.at(i);
      std::uint32_t pack = multi_pack(i);
      if (!opened[pack]) opened[pack] = std::make_shared<const PackIndex>(pack_path(pack), packs_[pack]);
      const RecordTable& table = opened[pack]->table();
      std::uint64_t at = table.find(record.key);
      bool same = at < table.size() && table.at(at).offset == record.offset &&
                  table.at(at).checksum == record.checksum && table.at(at).stored_size == record.stored_size &&
                  table.at(at).plain_size == record.plain_size && table.at(at).encoding == record.encoding;
      if (!same) ++wrong;
    } catch (const Error&) {
      ++wrong;
    }
  }
  if (wrong > 0) {
    problems.push_back(fmt::format("{}: {} records differ from the packs; delete this file, it is made anew",
                                   join_path(folder_, "multi.idx"), wrong));
  }
  return problems;
}

}  // namespace mlx::store
