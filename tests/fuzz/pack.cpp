// What packs are made of: headers, footers, index tables; and stored objects through the codec, their checksums made
// right so that the bytes behind them are reached.
#include "fuzz.h"
#include "store/format/codec.h"
#include "store/format/pack_format.h"

using namespace mlx;
using namespace mlx::store;

namespace {

void read_table(ByteView bytes) {
  if (bytes.size() < kFanoutSize) return;
  const RecordTable table(bytes, (bytes.size() - kFanoutSize) / kRecordSize, "table");
  for (std::uint64_t i = 0; i < table.size(); ++i) {
    fuzz::errors_are_fine([&] {
      const PackRecord record = table.at(i);
      fuzz::require(record.plain_size <= kMaxPlainSize, "sizes are bounded");
      fuzz::require(table.find(record.key) <= table.size(), "a search ends in the table");
    });
  }
}

void decode_object(fuzz::Input input) {
  PackRecord record;
  record.key.kind = static_cast<ObjectKind>(1 + input.byte() % 5);
  record.encoding = static_cast<Encoding>(input.byte() % 4);
  record.plain_size = input.number() % (1 << 16);
  record.extra_size = record.encoding == Encoding::kDelta ? kDeltaExtraSize : 0;
  const ByteView stored = input.rest();
  record.stored_size = static_cast<std::uint32_t>(stored.size());
  record.checksum = stored_checksum(stored);
  Bytes plain;
  Codec().decode(record, stored, plain, "object", [&](const Digest&) { return Bytes(record.plain_size); });
  fuzz::require(plain.size() == record.plain_size, "an object has its size");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(data, size);
  fuzz::errors_are_fine([&] { check_pack_header(bytes, "pack"); });
  if (size >= kFooterSize) {
    fuzz::errors_are_fine([&] {
      const PackFooter footer = decode_footer(bytes.last(kFooterSize), size, "pack");
      fuzz::require(footer.index_offset <= size, "an index stands in its pack");
      fuzz::require(footer.records <= size / kRecordSize, "records stand in their pack");
    });
  }
  fuzz::errors_are_fine([&] { read_table(bytes); });
  fuzz::errors_are_fine([&] { decode_object({data, size}); });
  return 0;
}
