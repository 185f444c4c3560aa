// Damaged and false packs, manifests, chunk lists and journals: an Error or the right answer, never anything else.
// Mutations come from a fixed seed, so a failure repeats.
#include <algorithm>

#include "fixture.h"
#include "store/format/chunk_list.h"
#include "store/format/chunker.h"
#include "store/format/pack_format.h"
#include "store/journal.h"

using namespace mlx;
using namespace mlx::store;

namespace {

Bytes mutate(Bytes bytes, std::mt19937_64& random) {
  if (bytes.empty()) return bytes;
  switch (random() % 5) {
    case 0:
      bytes.resize(random() % bytes.size());
      break;
    case 1:
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1 << random() % 8);
      break;
    case 2: {  // near the end: index and footer
      std::size_t back = random() % std::min<std::size_t>(bytes.size(), 200) + 1;
      bytes[bytes.size() - back] = static_cast<std::uint8_t>(random());
      break;
    }
    case 3: {
      std::size_t at = random() % bytes.size();
      std::size_t count = std::min<std::size_t>(random() % 16 + 1, bytes.size() - at);
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, random() % 2 ? 0xff : 0);
      break;
    }
    default:
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size()), 3, 0x55);
      break;
  }
  return bytes;
}

// `body` returns whether its result is right; an Error is fine too, if its kind is about data. (CHECK must not contain
// calls that throw: it counts every exception as a failure.)
void error_or_right(const std::function<bool()>& body) {
  try {
    bool right = body();
    CHECK(right);
  } catch (const Error& error) {
    bool about_data =
        error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kNotFound || error.kind == ErrorKind::kMissing;
    CAPTURE(error.message);
    CHECK(about_data);
  }
}

}  // namespace

TEST_CASE("mutated packs give errors or the right content") {
  TestStore t;
  Bytes large = text_bytes(200'000, 1), small = random_bytes(500, 2);
  Digest manifest, large_id, small_id;
  {
    auto batch = t.store->begin();
    large_id = batch->add_blob(large);
    small_id = batch->add_blob(small);
    manifest =
        batch->add_manifest({{"large", kModeFile, large.size(), large_id}, {"small", kModeFile, 500, small_id}}).id;
    batch->commit();
  }
  auto names = t.files_in_packs(".pack");
  REQUIRE(names.size() == 1);
  std::string path = t.pack_path();
  Bytes whole = read_file(path);
  std::mt19937_64 random(42);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Bytes damaged = mutate(whole, random);
    write_test_file(path, damaged);
    error_or_right([&] {
      Store store(t.folder, *t.disk, t.pool);
      error_or_right([&] { return store.read_blob(large_id) == large; });
      error_or_right([&] { return store.read_blob(small_id) == small; });
      error_or_right([&] { return store.entries(manifest).size() == 2; });
      error_or_right([&] { return store.stat().packs == 1; });
      error_or_right([&] { return store.operations().empty(); });
      FsckReport report = store.fsck(t.progress);
      return report.problems.empty() == (damaged == whole);
    });
  }
}

TEST_CASE("mutated indexes over many packs give errors or the right content") {
  TestStore t;
  std::vector<Digest> ids;
  ids.reserve(10);
  for (int i = 0; i < 10; ++i) ids.push_back(t.add_blob(as_bytes("blob " + std::to_string(i))));
  std::string path = t.folder + "/packs/multi.idx";
  Bytes whole = read_file(path);
  std::mt19937_64 random(43);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    write_test_file(path, mutate(whole, random));
    error_or_right([&] {
      Store store(t.folder, *t.disk, t.pool);
      for (int i = 0; i < 10; ++i) {
        error_or_right(
            [&] { return as_text(store.read_blob(ids[static_cast<std::size_t>(i)])) == "blob " + std::to_string(i); });
      }
      store.fsck(t.progress);
      return true;
    });
  }
}

TEST_CASE("mutated manifests and chunk lists decode to themselves or not at all") {
  std::vector<Entry> entries;
  entries.reserve(20);
  for (int i = 0; i < 20; ++i) entries.push_back({"file" + std::to_string(100 + i), kModeFile, 5, Digest::of("x")});
  Bytes shard = encode_shard(entries);
  Bytes root = encode_root({{"file100", Digest::of(shard), 20, 100}, {"g", Digest::of("y"), 1, 1}});
  Bytes list = encode_chunk_list({0, 300, {{Digest::of("a"), 100}, {Digest::of("b"), 200}}});
  std::mt19937_64 random(44);
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    Bytes bad_shard = mutate(shard, random);
    Bytes bad_root = mutate(root, random);
    Bytes bad_list = mutate(list, random);
    // One set of files has one encoding: what decodes encodes to the same bytes.
    error_or_right([&] { return encode_shard(decode_shard(bad_shard)) == bad_shard; });
    error_or_right([&] { return encode_root(decode_root(bad_root)) == bad_root; });
    error_or_right([&] { return encode_chunk_list(decode_chunk_list(bad_list, "list")) == bad_list; });
  }
}

TEST_CASE("mutated journals give whole operations or errors") {
  TempFolder temp;
  auto disk = unsynced_disk();
  std::string path = temp.path() + "/journal";
  Journal journal(path, *disk);
  for (int i = 0; i < 5; ++i) journal.append(as_bytes("operation " + std::to_string(i)));
  Bytes whole = read_file(path);
  std::mt19937_64 random(45);
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    write_test_file(path, mutate(whole, random));
    error_or_right([&] {
      int count = 0;
      bool right = true;
      journal.visit([&](const Digest&, ByteView bytes) {
        right = right && as_text(bytes) == "operation " + std::to_string(count++);
      });
      return right;
    });
  }
}

TEST_CASE("a pack that claims huge sizes does not make us allocate them") {
  PackRecord record;
  record.key = {Digest::of("x"), ObjectKind::kChunk};
  record.offset = 1000;
  record.plain_size = 0xffffffff;
  std::vector<PackRecord> records{record};
  Digest id;
  Bytes index = encode_pack_index(records, 16, &id);
  RecordTable table(ByteView(index).first(kFanoutSize + kRecordSize), 1, "test");
  CHECK(error_of([&] { table.at(0); }) == ErrorKind::kCorrupt);
}

TEST_CASE("a version whose file would lie below its own link is refused") {
  // "a" is a link to elsewhere and "a/b" a file: written in order, the file would land outside.
  TestStore t;
  auto batch = t.store->begin();
  Digest target = batch->add_blob(as_bytes("/tmp"));
  std::vector<Entry> entries{{"a", kModeLink, 4, target}, {"a/b", kModeFile, 4, target}};
  Digest shard = batch->add(ObjectKind::kShard, encode_shard(entries));
  Digest root = batch->add(ObjectKind::kManifest, encode_root({{"a", shard, 2, 8}}));
  batch->commit();
  CHECK(error_of([&] { t.store->entries(root); }) == ErrorKind::kCorrupt);
}

TEST_CASE("a chunk list that is not the file's is found by fsck and by whole reads") {
  TestStore t;
  auto batch = t.store->begin();
  Digest a = batch->add(ObjectKind::kChunk, as_bytes("a"));
  Digest b = batch->add(ObjectKind::kChunk, as_bytes("b"));
  batch->commit();
  // A remote could send such a list: packs hold it under any id.
  StoredObject lie;
  lie.stored = encode_chunk_list({0, 2, {{b, 1}, {a, 1}}});
  lie.key = {Digest::of("ab"), ObjectKind::kChunkList};
  lie.plain_size = static_cast<std::uint32_t>(lie.stored.size());
  lie.checksum = stored_checksum(lie.stored);
  ByteWriter pack;
  pack.raw(pack_header());
  pack.raw(entry_header(lie));
  pack.raw(lie.stored);
  std::vector<PackRecord> records{{lie.key, 80, lie.checksum, lie.plain_size, lie.plain_size}};
  Digest id;
  Bytes index = encode_pack_index(records, pack.size(), &id);
  pack.raw(index);
  write_test_file(t.folder + "/packs/" + id.hex() + ".pack", pack.bytes());
  t.store->reload();
  CHECK(error_of([&] { t.store->read_blob(Digest::of("ab")); }) == ErrorKind::kCorrupt);
  FsckReport report = t.store->fsck(t.progress);
  CHECK(report.problems.size() == 1);
  CHECK(report.damaged == std::vector<Digest>{Digest::of("ab")});
}
