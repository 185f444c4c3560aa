// Manifest roots, shards and chunk lists: one content has one encoding, so what decodes encodes to the same bytes.
#include "store/format/manifest.h"
#include "base/path.h"
#include "fuzz.h"
#include "store/format/chunk_list.h"

using namespace mlx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(data, size);
  fuzz::errors_are_fine([&] {
    const std::vector<store::Entry> entries = store::decode_shard(bytes);
    for (const store::Entry& entry : entries)
      fuzz::require(is_safe_relative(entry.path) && !has_private_part(entry.path), "paths stay inside");
    const Bytes again = store::encode_shard(entries);
    fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "shards have one encoding");
  });
  fuzz::errors_are_fine([&] {
    const Bytes again = store::encode_root(store::decode_root(bytes));
    fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "roots have one encoding");
  });
  fuzz::errors_are_fine([&] {
    const Bytes again = store::encode_chunk_list(store::decode_chunk_list(bytes, "list"));
    fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "lists have one encoding");
  });
  return 0;
}
