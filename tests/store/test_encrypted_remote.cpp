// An encrypted remote over a folder: objects come back unchanged, none can be read there, equal objects are stored
// once, and every changed byte is noticed.
#include <algorithm>

#include "fixture.h"
#include "store/crypto/key_changes.h"
#include "store/pack/batch.h"
#include "store/pack/cipher.h"
#include "store/pack/store_state.h"
#include "store/remote/encrypted_remote.h"
#include "store/remote/transfer.h"

using namespace mlx;
using namespace mlx::store;

namespace {

// Keys that somebody has unlocked.
UnlockedKeys own_keys() {
  const KeyPair me = x25519_generate();
  UnlockedKeys keys = make_keys(recipient_member(public_identity(me), "me", 1), 1);
  keys.access = *unwrap_root(keys.file, me);
  return keys;
}

struct Encrypted : TestStore {
  std::string url = temp.path() + "/remote";
  UnlockedKeys keys = own_keys();
  std::unique_ptr<EncryptedRemote> remote = open();

  std::unique_ptr<EncryptedRemote> open(const std::string& domain = kMainDomain) {
    RemoteOptions options;
    options.create = true;
    auto opened = std::make_unique<EncryptedRemote>(open_remote(url, options, *disk, pool),
                                                    std::make_shared<KeyRing>(ring_of(keys)));
    opened->set_domain(domain);
    return opened;
  }

  std::vector<ObjectRef> reachable(const Digest& manifest) const {
    std::vector<ObjectRef> objects;
    store->visit_reachable_manifest(manifest,
                                    [&](ObjectKind kind, const Digest& id) { objects.emplace_back(kind, id); });
    return objects;
  }

  Digest make_version(const std::string& marker, std::size_t size = 300000) {
    auto batch = store->begin();
    std::vector<Entry> entries;
    for (int i = 0; i < 3; ++i) {
      Bytes content = text_bytes(size * static_cast<std::size_t>(i), static_cast<std::uint64_t>(i));
      content.insert(content.begin(), marker.begin(), marker.end());
      entries.push_back({marker + std::to_string(i), kModeFile, content.size(), batch->add_blob(content)});
    }
    Digest id = batch->add_manifest(entries).id;
    batch->commit();
    return id;
  }

  std::vector<std::string> packs() const {
    std::vector<std::string> found;
    for (const std::string& name : list_folder(url + "/packs")) {
      if (name.ends_with(".pack")) found.push_back(url + "/packs/" + name);
    }
    return found;
  }

  bool stands_in_remote(ByteView needle) const {
    return std::ranges::any_of(packs(), [&](const std::string& path) {
      Bytes bytes = read_file(path);
      return !std::ranges::search(bytes, needle).empty();
    });
  }
};

// A flipped byte gives the receiver an error, or nothing if the byte was not read.
bool harmless_or_noticed(Encrypted& t, const std::vector<ObjectRef>& objects, const Digest& manifest) {
  TestStore other;
  try {
    receive_objects(*t.open(""), *other.store, objects, t.progress);
  } catch (const Error& error) {
    return error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kNotFound;
  }
  return other.store->entries(manifest) == t.store->entries(manifest);
}

}  // namespace

TEST_CASE("a version goes to an encrypted remote and comes back, and nothing of it can be read there") {
  Encrypted t;
  const Digest id = t.make_version("SECRETNAME");
  const auto objects = t.reachable(id);
  CHECK(missing_objects(*t.remote, objects).size() == objects.size());
  send_objects(*t.store, *t.remote, objects, t.progress);
  CHECK(missing_objects(*t.open(), objects).empty());
  CHECK(missing_objects(*t.open(""), objects).empty());
  CHECK(missing_objects(*t.open("other"), objects).size() == objects.size());

  CHECK_FALSE(t.stands_in_remote(as_bytes("SECRETNAME")));
  for (const auto& [kind, object] : objects) CHECK_FALSE(t.stands_in_remote(object.bytes));
  for (const Entry& entry : t.store->entries(id)) {
    const Bytes content = t.store->read_blob(entry.content);
    CHECK_FALSE(t.stands_in_remote(ByteView(content).first(16)));
  }

  TestStore other;
  receive_objects(*t.open(""), *other.store, objects, t.progress);
  CHECK(other.store->entries(id) == t.store->entries(id));
  CHECK(other.store->fsck(t.progress).problems.empty());
  for (const Entry& entry : t.store->entries(id))
    CHECK(other.store->read_blob(entry.content) == t.store->read_blob(entry.content));
  // Its packs can be verified without keys.
  CHECK(Store(t.url, *t.disk, t.pool).fsck(t.progress).problems.empty());
}

TEST_CASE("equal content is stored once under one domain, also after its key was changed") {
  Encrypted t;
  const auto objects = t.reachable(t.make_version("a"));
  send_objects(*t.store, *t.remote, objects, t.progress);
  const auto packs = t.packs();
  CHECK(send_objects(*t.store, *t.open(), objects, t.progress) == 0);
  rotate_domain(t.keys, kMainDomain, 2);
  CHECK(send_objects(*t.store, *t.open(), objects, t.progress) == 0);
  CHECK(t.packs() == packs);
  // What is new goes under the new key, and both are found.
  const auto more = t.reachable(t.make_version("b"));
  send_objects(*t.store, *t.open(), more, t.progress);
  TestStore other;
  std::vector<ObjectRef> all = objects;
  all.insert(all.end(), more.begin(), more.end());
  receive_objects(*t.open(""), *other.store, all, t.progress);
  for (const auto& [kind, id] : all) CHECK(other.store->has(kind, id));
}

TEST_CASE("nothing is shared between domains: without one's key the other stays readable") {
  Encrypted t;
  rotate_domain(t.keys, "people", 2);
  const Digest id = t.make_version("both");
  const auto objects = t.reachable(id);
  send_objects(*t.store, *t.open("main"), objects, t.progress);
  send_objects(*t.store, *t.open("people"), objects, t.progress);
  std::vector<std::uint32_t> ids;
  for (const DataKey& key : t.keys.file.keys) {
    if (key.domain == "main") ids.push_back(key.id);
  }
  erase_keys(t.keys.file, ids);
  TestStore other;
  receive_objects(*t.open(""), *other.store, objects, t.progress);
  CHECK(other.store->entries(id).size() == 3);
  ids.clear();
  for (const DataKey& key : t.keys.file.keys) {
    if (key.domain == "people") ids.push_back(key.id);
  }
  erase_keys(t.keys.file, ids);
  TestStore third;
  CHECK(error_of([&] { receive_objects(*t.open(""), *third.store, objects, t.progress); }) == ErrorKind::kNotFound);
  CHECK(missing_objects(*t.open(""), objects).size() == objects.size());
}

TEST_CASE("operations and heads: plain ids here, storage ids there") {
  Encrypted t;
  auto batch = t.store->begin();
  const Bytes first = to_bytes("operation one"), second = to_bytes(std::string(5000, 'x'));
  const Digest a = batch->add(ObjectKind::kOperation, first), b = batch->add(ObjectKind::kOperation, second);
  batch->commit();
  send_objects(*t.store, *t.remote, {{ObjectKind::kOperation, a}}, t.progress);
  CHECK(t.remote->publish_heads({}, {a}));
  CHECK(t.remote->heads() == std::vector<Digest>{a});
  CHECK(t.remote->inner().heads() != std::vector<Digest>{a});
  CHECK_FALSE(t.open()->publish_heads({}, {a}));
  rotate_domain(t.keys, kHistoryDomain, 2);
  auto later = t.open("");
  later->expect_operations({a, b});
  CHECK(later->heads() == std::vector<Digest>{a});
  send_objects(*t.store, *later, {{ObjectKind::kOperation, b}}, t.progress);
  CHECK(later->publish_heads({a}, {b}));
  auto fresh = t.open("");  // knows no operation
  CHECK(fresh->heads() == std::vector<Digest>{b});
  std::vector<Digest> both{a, b};
  std::ranges::sort(both);
  auto held = fresh->operations();
  std::ranges::sort(held);
  CHECK(held == both);
  TestStore other;
  receive_objects(*fresh, *other.store, {{ObjectKind::kOperation, a}, {ObjectKind::kOperation, b}}, t.progress);
  CHECK(other.store->read(ObjectKind::kOperation, a) == first);
  CHECK(other.store->read(ObjectKind::kOperation, b) == second);
}

TEST_CASE("a delta goes encrypted with its base") {
  Encrypted t;
  const Bytes base = random_bytes(60000, 1);
  Bytes close = base;
  close[100] ^= 1;
  const Digest base_id = Digest::of(base), id = Digest::of(close);
  auto batch = t.store->begin();
  Batch& packs = *batch;
  packs.put(ObjectKind::kChunk, base_id, base, 2);
  batch->commit();
  batch = t.store->begin();
  batch->put(ObjectKind::kChunk, id, close, 2, &base_id);
  batch->commit();
  REQUIRE(StoreAccess::state(*t.store).read_stored({id, ObjectKind::kChunk}).encoding == Encoding::kDelta);
  send_objects(*t.store, *t.remote, {{ObjectKind::kChunk, id}}, t.progress);
  CHECK_FALSE(t.stands_in_remote(base_id.bytes));
  TestStore other;
  receive_objects(*t.open(""), *other.store, {{ObjectKind::kChunk, id}}, t.progress);
  CHECK(other.store->read(ObjectKind::kChunk, id) == close);
}

TEST_CASE("every flipped byte of an encrypted pack is noticed or was not read") {
  Encrypted t;
  const Digest id = t.make_version("x", 150);
  const auto objects = t.reachable(id);
  send_objects(*t.store, *t.remote, objects, t.progress);
  const std::string path = t.packs().at(0);
  const Bytes good = read_file(path);
  for (std::size_t i = 0; i < good.size(); i += i < 300 ? 3 : 29) {
    Bytes bad = good;
    bad[i] ^= 0x08;
    write_test_file(path, bad);
    CAPTURE(i);
    CHECK(harmless_or_noticed(t, objects, id));
  }
}

TEST_CASE("a hostile remote cannot pass off one object as another, nor bytes under a checksum that fits") {
  Encrypted t;
  const KeyRing ring = ring_of(t.keys);
  const DomainKey& key = ring.current(kMainDomain);
  Codec codec;
  const Bytes content = text_bytes(4000, 1);
  const Digest id = Digest::of(content);
  const StoredObject plain = codec.encode({id, ObjectKind::kChunk}, id, content);
  const StoredObject sealed = seal(key, plain, {});
  CHECK(seal(key, plain, {}).stored == sealed.stored);  // a retried upload repeats itself
  CHECK(open_sealed(key, sealed, "x") == plain.stored);
  const auto refused = [&](const StoredObject& changed) {
    return error_of([&] { open_sealed(key, changed, "x"); }) == ErrorKind::kCorrupt;
  };
  for (std::size_t i = 0; i < sealed.stored.size(); ++i) {
    StoredObject changed = sealed;
    changed.stored[i] ^= 1;
    if (!refused(changed)) FAIL("byte " << i);
  }
  StoredObject changed = sealed;
  changed.key.id.bytes[0] ^= 1;
  CHECK(refused(changed));
  changed = sealed;
  changed.key.kind = ObjectKind::kShard;
  CHECK(refused(changed));
  changed = sealed;
  changed.encoding = Encoding::kRaw;
  CHECK(refused(changed));
  changed = sealed;
  changed.plain_size += 1;
  CHECK(refused(changed));
  changed = sealed;
  changed.extra = Bytes(32);
  CHECK(refused(changed));
  changed = sealed;
  changed.stored.resize(5);
  CHECK(refused(changed));
  CHECK(open_sealed(key, sealed, "x") == plain.stored);
}
