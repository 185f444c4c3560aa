// Tensors in packs: byte planes, deltas against a base version's tensors, and false claims about them.
#include <cmath>
#include <cstring>

#include "fixture.h"
#include "formats/safetensors.h"
#include "store/format/byte_planes.h"
#include "store/format/codec.h"
#include "store/pack/index.h"
#include "store/remote/transfer.h"
#include "store/worktree/add_files.h"

using namespace mlx;
using namespace mlx::store;

namespace {

constexpr std::size_t kElements = 200'000;

// Values as training leaves them, near 0.02, rounded to bf16 (truncated f32).
Bytes bf16(const std::vector<float>& values) {
  Bytes bytes;
  for (float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    bytes.push_back(static_cast<std::uint8_t>(bits >> 16));
    bytes.push_back(static_cast<std::uint8_t>(bits >> 24));
  }
  return bytes;
}

std::vector<float> weights(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(kElements);
  for (float& value : values) value = normal(random);
  return values;
}

// A step of fine-tuning: every weight moves by about a thousandth of itself.
std::vector<float> tuned(std::vector<float> values, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, 1e-3f);
  for (float& value : values) value *= 1.0f + normal(random);
  return values;
}

Bytes checkpoint(const std::vector<float>& values, const std::string& name = "w") {
  std::vector<formats::SafetensorsEntry> tensors{{name, "BF16", {static_cast<std::int64_t>(values.size())}}};
  Bytes file = formats::encode_safetensors_header(tensors);
  Bytes data = bf16(values);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

Digest add(Store& store, ByteView bytes, const Digest* base = nullptr) {
  auto batch = store.begin();
  Digest id = batch->add_blob(bytes, base);
  batch->commit();
  return id;
}

std::size_t count_encoding(const TestStore& t, Encoding encoding) {
  std::size_t count = 0;
  auto index = Index::load(t.folder + "/packs", nullptr);
  index->visit([&](const Location& location) { count += location.record.encoding == encoding; });
  return count;
}

std::vector<ObjectRef> objects_of(const Store& store, const Digest& blob) {
  std::vector<ObjectRef> objects;
  store.visit_reachable_blob(blob, [&](ObjectKind kind, const Digest& id) { objects.emplace_back(kind, id); });
  return objects;
}

}  // namespace

TEST_CASE("planes are taken apart and put together again, of every width") {
  for (int width : {1, 2, 4, 8}) {
    Bytes elements = random_bytes(static_cast<std::size_t>(width) * 1000, 5), planes, again;
    split_planes(elements, width, planes);
    CHECK(planes[999] == elements[999 * static_cast<std::size_t>(width)]);
    join_planes(planes, width, again);
    CHECK(again == elements);
  }
}

TEST_CASE("differences are small numbers, and lead back, of every width") {
  for (int width : {1, 2, 4, 8}) {
    Bytes elements = random_bytes(static_cast<std::size_t>(width) * 1000, 6),
          base = random_bytes(static_cast<std::size_t>(width) * 1000, 7), again = elements;
    subtract(again, base, width);
    add(again, base, width);
    CHECK(again == elements);
    Bytes up = base, down = base;
    up[0] = static_cast<std::uint8_t>(base[0] + 1);
    down[0] = static_cast<std::uint8_t>(base[0] - 1);
    subtract(up, base, width);
    subtract(down, base, width);
    if (base[0] != 0xFF) CHECK(up[0] == 2);
    if (base[0] != 0) CHECK(down[0] == 1);
  }
}

TEST_CASE("tensors are compressed by planes, other bytes as they are") {
  TestStore t;
  Bytes file = checkpoint(weights(1));
  Digest id = add(*t.store, file);
  CHECK(count_encoding(t, Encoding::kPlanes) == 7);  // 400,000 bytes in pieces of 64 KiB
  CHECK(t.store->stat().stored_bytes < file.size() * 72 / 100);
  CHECK(t.store->read_blob(id) == file);
  CHECK(t.store->fsck(t.progress).problems.empty());
}

TEST_CASE("a fine-tuned tensor is stored as what differs from its base, and again from the same base") {
  TestStore t;
  std::vector<float> values = weights(1);
  Digest first = add(*t.store, checkpoint(values));
  std::uint64_t whole = t.store->stat().stored_bytes;
  Digest before = first;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    std::uint64_t stored = t.store->stat().stored_bytes;
    values = tuned(values, step);
    Bytes file = checkpoint(values);
    Digest id = add(*t.store, file, &before);
    CHECK(t.store->stat().stored_bytes - stored < whole / 2);
    CHECK(t.store->read_blob(id) == file);
    before = id;
  }
  CHECK(count_encoding(t, Encoding::kDelta) == 21);
  CHECK(t.store->fsck(t.progress).problems.empty());
}

TEST_CASE("a tensor of another name or far from its base is stored whole") {
  TestStore t;
  Digest first = add(*t.store, checkpoint(weights(1)));
  add(*t.store, checkpoint(tuned(weights(1), 7), "other"), &first);
  add(*t.store, checkpoint(weights(2)), &first);
  CHECK(count_encoding(t, Encoding::kDelta) == 0);
}

TEST_CASE("a base that is not in the store, or no file of tensors, is no base") {
  TestStore t;
  Digest nowhere = Digest::of("nowhere"), text = t.add_blob(text_bytes(300'000, 3));
  Bytes file = checkpoint(weights(1));
  CHECK(t.store->read_blob(add(*t.store, file, &nowhere)) == file);
  Bytes second = checkpoint(weights(2));
  CHECK(t.store->read_blob(add(*t.store, second, &text)) == second);
  CHECK(count_encoding(t, Encoding::kDelta) == 0);
}

TEST_CASE("files under the paths of a base version find their bases, also step by step under new names") {
  TestStore t;
  std::vector<float> values = weights(1);
  write_test_file(t.temp.path() + "/run/step-1.safetensors", checkpoint(values));
  auto batch = t.store->begin();
  std::vector<Entry> before = {add_file(*batch, t.temp.path() + "/run/step-1.safetensors", "run/step-1.safetensors")};
  batch->commit();
  for (const char* name : {"run/step-1.safetensors", "run/step-2.safetensors"}) {
    values = tuned(values, 9);
    write_test_file(t.temp.path() + "/" + name, checkpoint(values));
    std::size_t deltas = count_encoding(t, Encoding::kDelta);
    auto next = t.store->begin();
    next->use_bases(before);
    add_file(*next, t.temp.path() + "/" + name, name);
    next->commit();
    CHECK(count_encoding(t, Encoding::kDelta) == deltas + 7);
  }
}

TEST_CASE("deltas travel with their bases, and not where the base is already") {
  TestStore t, other;
  Digest first = add(*t.store, checkpoint(weights(1)));
  Bytes file = checkpoint(tuned(weights(1), 1));
  Digest second = add(*t.store, file, &first);
  std::string url = t.temp.path() + "/remote";
  auto remote = open_remote(url, {.create = true}, *t.disk, t.pool);
  std::uint64_t both = send_objects(*t.store, *remote, objects_of(*t.store, second), t.progress);
  CHECK(receive_objects(*remote, *other.store, objects_of(*t.store, second), t.progress) == both);
  CHECK(other.store->read_blob(second) == file);
  CHECK(count_encoding(other, Encoding::kDelta) == 7);
  CHECK(other.store->fsck(t.progress).problems.empty());
  // The first version's list is all that is new now.
  CHECK(send_objects(*t.store, *remote, objects_of(*t.store, first), t.progress) < 2000);
}

TEST_CASE("damage in a delta's base, payload or extra bytes is found") {
  TestStore t;
  Digest first = add(*t.store, checkpoint(weights(1)));
  Digest second = add(*t.store, checkpoint(tuned(weights(1), 1)), &first);
  auto index = Index::load(t.folder + "/packs", nullptr);
  std::optional<Location> delta;
  index->visit([&](const Location& location) {
    if (location.record.encoding == Encoding::kDelta && !delta) delta = location;
  });
  REQUIRE(delta);
  for (std::int64_t shift : {-1, 0, 33, 200}) {
    std::string path = index->pack_path(delta->pack);
    Bytes pack = read_file(path), damaged = pack;
    damaged[static_cast<std::size_t>(static_cast<std::int64_t>(delta->record.offset) + shift)] ^= 0x10;
    write_file_atomically(path, damaged);
    CAPTURE(shift);
    Store reopened(t.folder, *t.disk, t.pool);
    CHECK_FALSE(reopened.fsck(t.progress).problems.empty());
    if (shift >= 0) CHECK(error_of([&] { reopened.read_blob(second); }) == ErrorKind::kCorrupt);
    write_file_atomically(path, pack);
  }
}

TEST_CASE("stored bytes that lie about planes and deltas are corrupt, never more memory than they claim") {
  Codec codec;
  Bytes plain = bf16(weights(3));
  plain.resize(65'536);
  Digest id = Digest::of(plain);
  ObjectKey key{id, ObjectKind::kChunk};
  StoredObject good = codec.encode(key, id, plain, 2);
  REQUIRE(good.encoding == Encoding::kPlanes);
  auto decode = [&](Bytes stored, Encoding encoding, std::uint32_t plain_size, const ReadBase& base = {}) {
    PackRecord record;
    record.key = key;
    record.encoding = encoding;
    record.plain_size = plain_size;
    record.stored_size = static_cast<std::uint32_t>(stored.size());
    record.checksum = stored_checksum(stored);
    Bytes out;
    return error_of([&] { codec.decode(record, stored, out, "pack", base); });
  };
  CHECK(decode(good.stored, Encoding::kPlanes, 65'536) == std::nullopt);
  for (std::uint8_t width : {0, 1, 3, 4, 16}) {
    Bytes stored = good.stored;
    stored[0] = width;
    CHECK(decode(stored, Encoding::kPlanes, 65'536) == ErrorKind::kCorrupt);
  }
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, good.stored.size() / 2, good.stored.size() - 1}) {
    CHECK(decode(Bytes(good.stored.begin(), good.stored.begin() + static_cast<std::ptrdiff_t>(size)), Encoding::kPlanes,
                 65'536) == ErrorKind::kCorrupt);
  }
  Bytes longer = good.stored;
  longer.push_back(0);
  CHECK(decode(longer, Encoding::kPlanes, 65'536) == ErrorKind::kCorrupt);
  CHECK(decode(good.stored, Encoding::kPlanes, 65'534) == ErrorKind::kCorrupt);

  Bytes base = bf16(weights(4));
  base.resize(65'536);
  Digest base_id = Digest::of(base);
  auto delta = codec.encode_delta(key, plain, 2, {base_id, {base_id, ObjectKind::kChunk}, base}, 1 << 20);
  REQUIRE(delta);
  CHECK(base_of(*delta)->id == base_id);
  CHECK(decode(delta->stored, Encoding::kDelta, 65'536, [&](const Digest&) { return base; }) == std::nullopt);
  CHECK(decode(delta->stored, Encoding::kDelta, 65'536) == ErrorKind::kCorrupt);  // a base that is a delta itself
  CHECK(decode(delta->stored, Encoding::kDelta, 65'536, [&](const Digest&) { return plain; }) == ErrorKind::kCorrupt);
  CHECK(decode(delta->stored, Encoding::kDelta, 65'536, [&](const Digest&) { return Bytes(10); }) ==
        ErrorKind::kCorrupt);
  CHECK(decode(Bytes(20), Encoding::kDelta, 65'536, [&](const Digest&) { return base; }) == ErrorKind::kCorrupt);
}
