// An encrypted store: content reads back unchanged, nothing is stored in clear, content is shared within a domain and
// never between two, and objects without a key are reported.
#include <algorithm>

#include "../stride.h"
#include "fixture.h"
#include "store/crypto/key_changes.h"
#include "store/pack/store_state.h"

using namespace mlx;
using namespace mlx::store;

namespace {

// Keys that somebody has unlocked.
UnlockedKeys keys_of_store() {
  const KeyPair me = x25519_generate();
  UnlockedKeys keys = make_keys(recipient_member(public_identity(me), "me", 1), 1);
  keys.access = *unwrap_root(keys.file, me);
  return keys;
}

struct Held final : KeySource {
  std::shared_ptr<const KeyRing> held;
  std::shared_ptr<const KeyRing> ring() override {
    if (!held) throw Error(ErrorKind::kRefused, "locked");
    return held;
  }
};

struct EncryptedStore {
  TempFolder temp;
  std::unique_ptr<Disk> disk = unsynced_disk();
  Pool pool{2};
  NoProgress progress;
  std::string folder = temp.path() + "/.mlx";
  UnlockedKeys keys = keys_of_store();
  std::shared_ptr<Held> held = std::make_shared<Held>();
  std::unique_ptr<Store> store;

  EncryptedStore() {
    rotate_domain(keys, "people", 2);
    Store::create(folder, *disk, true);
    open();
  }
  void open() {
    held->held = std::make_shared<KeyRing>(ring_of(keys));
    StoreOptions options;
    options.keys = held;
    store = std::make_unique<Store>(folder, *disk, pool, options);
  }
  Digest add(const std::string& domain, ByteView content) {
    store->use_domain(domain);
    auto batch = store->begin();
    Digest id = batch->add_blob(content);
    batch->commit();
    return id;
  }
  void erase(const std::string& domain) {
    std::vector<std::uint32_t> ids;
    for (const DataKey& key : keys.file.keys) {
      if (key.domain == domain) ids.push_back(key.id);
    }
    erase_keys(keys.file, ids);
    open();
  }
  bool holds(ByteView needle) const {
    return std::ranges::any_of(list_folder(folder + "/packs"), [&](const std::string& name) {
      Bytes bytes = read_file(folder + "/packs/" + name);
      return !std::ranges::search(bytes, needle).empty();
    });
  }
};

}  // namespace

TEST_CASE("an encrypted store reads back what it was given and holds nothing of it in clear") {
  EncryptedStore t;
  const Bytes small = to_bytes("SECRETSECRETSECRETSECRET"), large = random_bytes(700000, 3);
  auto batch = t.store->begin();
  std::vector<Entry> entries = {{"SECRETNAME", kModeFile, small.size(), batch->add_blob(small)},
                                {"large", kModeFile, large.size(), batch->add_blob(large)}};
  const Digest manifest = batch->add_manifest(entries).id;
  const Digest operation = batch->add(ObjectKind::kOperation, to_bytes("SECRETOPERATION"));
  batch->commit();
  CHECK(t.store->read_blob(entries[0].content) == small);
  CHECK(t.store->read_blob(entries[1].content) == large);
  CHECK(t.store->entries(manifest) == entries);
  CHECK(t.store->operations() == std::vector<Digest>{operation});
  CHECK_FALSE(t.holds(as_bytes("SECRET")));
  CHECK_FALSE(t.holds(ByteView(large).subspan(1000, 16)));
  CHECK_FALSE(t.holds(manifest.bytes));
  CHECK_FALSE(t.holds(entries[0].content.bytes));
  const FsckReport report = t.store->fsck(t.progress);
  CHECK(report.problems.empty());
  CHECK(report.locked == 0);
  for (const Digest& id : t.store->storage_ids(entries[0].content))
    CHECK((id == entries[0].content || !t.holds(id.bytes) ||
           StoreAccess::state(*t.store).index()->find({id, ObjectKind::kChunk})));
}

TEST_CASE("without a key an encrypted store is refused, and its checksums hold all the same") {
  EncryptedStore t;
  const Digest id = t.add("main", text_bytes(100000, 1));
  t.held->held = nullptr;
  CHECK(error_of([&] { t.store->read_blob(id); }) == ErrorKind::kRefused);
  CHECK(error_of([&] { t.store->has_blob(id); }) == ErrorKind::kRefused);
  CHECK(error_of([&] { t.store->begin(); }) == ErrorKind::kRefused);
  const FsckReport report = t.store->fsck(t.progress);
  CHECK(report.problems.empty());
  CHECK(report.locked == report.objects);
  CHECK(error_of([&] { Store(t.folder, *t.disk, t.pool).read_blob(id); }) == ErrorKind::kRefused);
}

TEST_CASE("equal content is stored once in a domain, and again in another one") {
  EncryptedStore t;
  const Bytes content = random_bytes(300000, 5);
  t.add("main", content);
  const std::uint64_t once = t.store->stat().objects;
  t.add("main", content);
  CHECK(t.store->stat().objects == once);
  rotate_domain(t.keys, "main", 3);
  t.open();
  const Digest id = t.add("main", content);
  CHECK(t.store->stat().objects == once);
  t.add("people", content);
  CHECK(t.store->stat().objects == 2 * once);
  t.erase("main");
  CHECK(t.store->read_blob(id) == content);
  const FsckReport report = t.store->fsck(t.progress);
  CHECK(report.problems.empty());
  CHECK(report.locked == once);
  t.erase("people");
  CHECK(error_of([&] { t.store->read_blob(id); }) == ErrorKind::kNotFound);
}

TEST_CASE("every flipped byte of a pack of an encrypted store is found by fsck") {
  EncryptedStore t;
  t.add("main", text_bytes(2000, 1));
  std::string path;
  for (const std::string& name : list_folder(t.folder + "/packs")) {
    if (name.ends_with(".pack")) path = t.folder + "/packs/" + name;
  }
  const Bytes good = read_file(path);
  for (std::size_t i = 0; i < good.size(); i += 13 * static_cast<std::size_t>(mlx::test::stride())) {
    Bytes bad = good;
    bad[i] ^= 0x04;
    write_test_file(path, bad);
    t.open();
    CAPTURE(i);
    CHECK_FALSE(t.store->fsck(t.progress).problems.empty());
  }
}

TEST_CASE("versions that are refused say why, and others are read") {
  TestStore t;
  auto batch = t.store->begin();
  const Digest a = batch->add_manifest({{"a", kModeFile, 1, batch->add_blob(to_bytes("a"))}}).id;
  const Digest b = batch->add_manifest({{"b", kModeFile, 1, batch->add_blob(to_bytes("b"))}}).id;
  batch->commit();
  t.store->refuse({{a, Error(ErrorKind::kRefused, "erased")}});
  CHECK(error_of([&] { t.store->entries(a); }) == ErrorKind::kRefused);
  CHECK(t.store->entries(b).size() == 1);
  t.store->refuse({});
  CHECK(t.store->entries(a).size() == 1);
}
