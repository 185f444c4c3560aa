// Fetching a gap of a few chunks costs less than another request.
#include "store/remote/s3/download.h"

#include <algorithm>

#include "base/error.h"
#include "store/format/codec.h"

namespace mlx::store::s3 {

namespace {

constexpr std::uint64_t kLargestGap = std::uint64_t{64} << 10;
constexpr std::uint64_t kLargestSpan = std::uint64_t{8} << 20;  // unless one object is larger

// Neighbouring objects of one pack, and the bytes of it that hold them.
struct Span {
  std::size_t first = 0, count = 0;  // in the sorted places
  std::uint64_t begin = 0, end = 0;
};

std::uint64_t begin_of(const PackRecord& record) {
  return record.offset - record.extra_size - kEntryHeaderSize;
}

std::uint64_t end_of(const PackRecord& record) {
  return record.offset + record.stored_size;
}

std::string name_of_pack(const PackEntry& pack) {
  return "packs/" + pack.id.hex() + ".pack";
}

void require_inside(const PackRecord& record, const PackEntry& pack, const Client& client) {
  if (end_of(record) >= record.offset && end_of(record) <= pack.size - pack.tail_size()) return;
  fail(ErrorKind::kCorrupt, "{}: its index points behind its objects", client.url_of(name_of_pack(pack)));
}

std::vector<Span> spans_of(const std::vector<Place>& places, const PackTables& tables, const Client& client) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const PackRecord& record = places[i].record;
    require_inside(record, tables.pack(places[i].pack), client);
    const bool joins = !spans.empty() && places[spans.back().first].pack == places[i].pack &&
                       begin_of(record) <= spans.back().end + kLargestGap &&
                       end_of(record) <= spans.back().begin + kLargestSpan;
    if (!joins) spans.push_back({i, 0, begin_of(record), 0});
    ++spans.back().count;
    spans.back().end = std::max(spans.back().end, end_of(record));
  }
  return spans;
}

StoredObject object_in(ByteView bytes, std::uint64_t begin, const PackRecord& record, const std::string& where) {
  const auto at = static_cast<std::size_t>(begin_of(record) - begin);
  check_entry_header(bytes.subspan(at, kEntryHeaderSize), record, where);
  const ByteView extra = bytes.subspan(at + kEntryHeaderSize, record.extra_size);
  const ByteView stored = bytes.subspan(at + kEntryHeaderSize + record.extra_size, record.stored_size);
  check_stored(record, stored, where);
  StoredObject object{record.key, record.encoding, record.key_id, record.plain_size, record.checksum, {}, {}};
  object.stored.assign(stored.begin(), stored.end());
  object.extra.assign(extra.begin(), extra.end());
  return object;
}

}  // namespace

StoredObject download_one(Client& client, const PackEntry& pack, const PackRecord& record) {
  require_inside(record, pack, client);
  const std::string name = name_of_pack(pack);
  const Bytes bytes = client.get_range(name, begin_of(record), end_of(record) - begin_of(record));
  return object_in(bytes, begin_of(record), record, client.url_of(name));
}

void download(Client& client, const PackTables& tables, std::vector<Place> places, Pool& network,
              const TakeStored& take, Progress& progress) {
  std::ranges::sort(places, [](const Place& a, const Place& b) {
    return a.pack != b.pack ? a.pack < b.pack : a.record.offset < b.record.offset;
  });
  const std::vector<Span> spans = spans_of(places, tables, client);
  network.run(static_cast<std::int64_t>(spans.size()), [&](std::int64_t number) {
    progress.check_interrupted();
    const Span& span = spans[static_cast<std::size_t>(number)];
    const std::string name = name_of_pack(tables.pack(places[span.first].pack));
    const Bytes bytes = client.get_range(name, span.begin, span.end - span.begin);
    for (std::size_t i = span.first; i < span.first + span.count; ++i) {
      const PackRecord& record = places[i].record;
      take(object_in(bytes, span.begin, record, client.url_of(name)));
      progress.advance(record.stored_size);
    }
  });
}

}  // namespace mlx::store::s3
