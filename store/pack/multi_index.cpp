// Reading, writing and verifying multi.idx.
#include "store/pack/multi_index.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "base/progress.h"
#include "store/pack/index.h"

namespace mlx::store {

namespace {

constexpr std::string_view kMultiMagic = "MLXMULTI";
constexpr std::uint32_t kMultiVersion = 1;
constexpr std::size_t kHeaderSize = 64;
std::shared_ptr<const MultiIndex> read_multi_index(const std::string& path) {
  auto multi = std::make_shared<MultiIndex>();
  multi->file = MappedFile(path);
  ByteView bytes = multi->file.bytes();
  ByteReader in(bytes, path);
  if (as_text(in.take(8)) != kMultiMagic) in.corrupt("wrong magic");
  if (in.u32() != kMultiVersion) in.corrupt("unknown version");
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
}

}  // namespace

std::shared_ptr<const MultiIndex> open_multi_index(const std::string& path) {
  if (!path_exists(path)) return nullptr;
  try {
    return read_multi_index(path);
  } catch (const Error& error) {
    log("index over many packs is ignored: {}", error.message);
    return nullptr;
  }
}

std::uint32_t MultiIndex::pack_number(std::uint64_t record) const {
  return ByteReader(pack_numbers.subspan(4 * record, 4)).u32();
}

Bytes encode_multi_index(const std::vector<Digest>& packs, std::vector<Location> all) {
  std::sort(all.begin(), all.end(), [](const Location& a, const Location& b) {
    return a.record.key != b.record.key ? a.record.key < b.record.key : a.pack < b.pack;
  });
  auto same = [](const Location& a, const Location& b) { return a.record.key == b.record.key; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());

  ByteWriter table;
  for (const Digest& id : packs) table.raw(id.bytes);
  ByteWriter out;
  out.raw(as_bytes(kMultiMagic));
  out.u32(kMultiVersion);
  out.u32(static_cast<std::uint32_t>(packs.size()));
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
  return out.take();
}

// Every byte of it: the header and the fanout by what they must be, each record by the pack that it names.
std::vector<std::string> verify_multi_index(const std::string& folder, const Interruption& interruption) {
  const std::string path = join_path(folder, "multi.idx");
  if (!path_exists(path)) return {};
  auto problem = [&](std::string_view what) {
    return std::vector<std::string>{fmt::format("{}: {}; delete this file, it is made anew", path, what)};
  };
  try {
    auto multi = read_multi_index(path);
    if (std::ranges::any_of(multi->file.bytes().subspan(24, 8), [](std::uint8_t byte) { return byte != 0; })) {
      return problem("reserved bytes are not 0");
    }
    std::vector<std::unique_ptr<PackIndex>> packs(multi->ids.size());
    std::vector<std::uint32_t> fanout(256);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < multi->table.size(); ++i) {
      interruption.check();
      PackRecord record = multi->table.at(i);
      ++fanout[record.key.id.bytes[0]];
      const std::uint32_t number = multi->pack_number(i);
      if (i > 0 && !(multi->table.at(i - 1).key < record.key)) return problem("its records are not sorted");
      if (number >= packs.size()) return problem("a record names a pack that is not in its table");
      const std::string pack = join_path(folder, multi->ids[number].hex() + ".pack");
      if (!packs[number]) {
        if (!path_exists(pack)) return {};  // outdated: readers ignore it
        packs[number] = std::make_unique<PackIndex>(pack, multi->ids[number]);
      }
      const RecordTable& table = packs[number]->table();
      std::uint64_t at = table.find(record.key);
      if (at == table.size() || !(table.at(at) == record)) ++wrong;
    }
    if (wrong > 0) return problem(fmt::format("{} records differ from the packs", wrong));
    for (std::size_t byte = 0, sum = 0; byte < fanout.size(); ++byte) {
      if (multi->table.fanout(byte) != (sum += fanout[byte])) return problem("its fanout does not fit its records");
    }
    return {};
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted || error.kind == ErrorKind::kIo) throw;
    return problem(error.message);
  }
}

}  // namespace mlx::store
