// fsck finds every flipped bit, and repair makes what is left usable again.
#include <algorithm>

#include "../stride.h"
#include "fixture.h"
#include "store/journal.h"
#include "store/maintenance/repair.h"

using namespace mlx;
using namespace mlx::store;

namespace {

FsckReport check(const std::string& folder, Pool& pool) {
  auto disk = unsynced_disk();
  NoProgress progress;
  return Store(folder, *disk, pool).fsck(progress);
}

// True if fsck, or opening the store, says that something is wrong.
bool is_found(const std::string& folder, Pool& pool) {
  try {
    return !check(folder, pool).problems.empty();
  } catch (const Error& error) {
    return error.kind == ErrorKind::kCorrupt;
  }
}

Digest add_small_version(Store& store) {
  auto batch = store.begin();
  Bytes text = text_bytes(900, 1), noise = random_bytes(300, 2);
  std::vector<Entry> entries = {{"noise", kModeFile, noise.size(), batch->add_blob(noise)},
                                {"text", kModeFile, text.size(), batch->add_blob(text)}};
  Digest id = batch->add_manifest(entries).id;
  batch->commit();
  return id;
}

void expect_every_flip_found(const std::string& folder, const std::string& path, std::size_t step) {
  Pool pool(1);
  const Bytes whole = read_file(path);
  REQUIRE(check(folder, pool).problems.empty());
  std::size_t missed = 0;
  for (std::size_t at = 0; at < whole.size(); at += step) {
    Bytes damaged = whole;
    damaged[at] ^= static_cast<std::uint8_t>(1U << (at % 8));
    write_test_file(path, damaged);
    CAPTURE(at);
    bool found = is_found(folder, pool);
    CHECK(found);
    if (!found && ++missed > 10) break;
  }
  write_test_file(path, whole);
  CHECK(check(folder, pool).problems.empty());
}

}  // namespace

TEST_CASE("a flipped bit in any byte of a pack is found") {
  TestStore t;
  add_small_version(*t.store);
  expect_every_flip_found(t.folder, t.pack_path(), 1);
}

TEST_CASE("a flipped bit in any byte of the index over many packs is found" * doctest::test_suite("long")) {
  TestStore t;
  for (std::uint64_t i = 0; i < 9; ++i) t.add_blob(random_bytes(50, i));
  std::string multi = t.folder + "/packs/multi.idx";
  REQUIRE(path_exists(multi));
  expect_every_flip_found(t.folder, multi, 1);
}

TEST_CASE("a flipped bit in the layout's line is found") {
  TestStore t;
  add_small_version(*t.store);
  expect_every_flip_found(t.folder, t.folder + "/packs/FORMAT", 1);
}

TEST_CASE("a flipped bit in any byte of a journal that is not its last batch is found, and the last one is left out") {
  TestStore t;
  std::string path = t.folder + "/journal";
  Journal journal(path, *t.disk);
  journal.append(as_bytes("first"));
  std::size_t first = read_file(path).size();
  journal.append(as_bytes("second"));
  const Bytes whole = read_file(path);
  for (std::size_t at = 0; at < whole.size(); at += static_cast<std::size_t>(mlx::test::stride())) {
    Bytes damaged = whole;
    damaged[at] ^= 4;
    write_test_file(path, damaged);
    CAPTURE(at);
    int seen = 0;
    auto error = error_of([&] { journal.visit([&](const Digest&, ByteView) { ++seen; }); });
    CHECK((at < first ? error == ErrorKind::kCorrupt : !error && seen == 1));
  }
}

TEST_CASE("repair saves what is whole in a damaged pack, sets the pack aside, and says what is lost") {
  TestStore t;
  Bytes lost = random_bytes(1000, 5), kept = random_bytes(1000, 6);
  Digest lost_id, kept_id;
  {
    auto batch = t.store->begin();
    lost_id = batch->add_blob(lost);
    kept_id = batch->add_blob(kept);
    batch->commit();
  }
  std::string path = t.pack_path();
  Bytes bytes = read_file(path);
  auto at = std::search(bytes.begin(), bytes.end(), lost.begin(), lost.begin() + 32);
  REQUIRE(at != bytes.end());
  at[10] ^= 1;
  write_test_file(path, bytes);
  Store store(t.folder, *t.disk, t.pool);
  RepairReport report = set_damage_aside(store, store.fsck(t.progress), t.progress);
  CHECK(report.saved_objects == 1);
  CHECK(report.set_aside == std::vector<std::string>{path + ".damaged-1"});
  CHECK(report.lost == std::vector<ObjectRef>{{ObjectKind::kChunk, lost_id}});
  CHECK(store.fsck(t.progress).problems.empty());
  CHECK(store.read_blob(kept_id) == kept);
  CHECK_FALSE(store.has_blob(lost_id));
  auto batch = store.begin();
  CHECK(batch->add_blob(lost) == lost_id);
  batch->commit();
  CHECK(store.read_blob(lost_id) == lost);
}

TEST_CASE("repair finds the entries of packs whose index is damaged or cut off") {
  for (int damage : {0, 1, 2}) {
    CAPTURE(damage);
    TestStore t;
    Digest version = add_small_version(*t.store);
    std::string path = t.pack_path();
    Bytes bytes = read_file(path);
    if (damage == 0) bytes[bytes.size() - 100] ^= 1;   // a record: the new pack has the old one's name
    if (damage == 1) bytes.resize(bytes.size() - 70);  // no footer
    if (damage == 2) bytes[0] ^= 1;                    // magic
    write_test_file(path, bytes);
    Store store(t.folder, *t.disk, t.pool);
    RepairReport report = set_damage_aside(store, store.fsck(t.progress), t.progress);
    CHECK(report.saved_objects == 4);
    CHECK(store.fsck(t.progress).problems.empty());
    for (const Entry& entry : store.entries(version)) CHECK(store.read_blob(entry.content).size() == entry.size);
  }
}

TEST_CASE("repair removes a damaged index over many packs") {
  TestStore t;
  for (std::uint64_t i = 0; i < 9; ++i) t.add_blob(random_bytes(50, i));
  std::string multi = t.folder + "/packs/multi.idx";
  Bytes bytes = read_file(multi);
  bytes[bytes.size() / 2] ^= 1;
  write_test_file(multi, bytes);
  Store store(t.folder, *t.disk, t.pool);
  set_damage_aside(store, store.fsck(t.progress), t.progress);
  CHECK(store.fsck(t.progress).problems.empty());
  for (std::uint64_t i = 0; i < 9; ++i) CHECK(store.has_blob(Digest::of(random_bytes(50, i))));
}

namespace {

// Whatever happens to the repair at any call, what was whole stays readable, and a second repair goes through.
void repair_with(FaultDisk::Fault fault) {
  Pool pool(1);
  NoProgress progress;
  Bytes lost = random_bytes(1000, 5), kept = random_bytes(1000, 6);
  for (int at = 1, calls = 1; at <= calls + 1; at += mlx::test::stride()) {
    CAPTURE(at);
    TestStore t;
    {
      auto batch = t.store->begin();
      batch->add_blob(lost);
      batch->add_blob(kept);
      batch->commit();
    }
    t.store.reset();
    std::string path = t.pack_path();
    Bytes bytes = read_file(path);
    *std::search(bytes.begin(), bytes.end(), lost.begin(), lost.begin() + 32) ^= 1;
    write_test_file(path, bytes);
    FaultDisk disk(fault, at);
    {
      Store store(t.folder, disk, pool);
      try {
        set_damage_aside(store, store.fsck(progress), progress);
      } catch (const Error& error) {
        CHECK(error.kind == ErrorKind::kIo);
      } catch (const Killed&) {
      }
    }
    calls = std::max(calls, disk.calls());
    Store after(t.folder, *t.disk, pool);
    CHECK(after.read_blob(Digest::of(kept)) == kept);
    set_damage_aside(after, after.fsck(progress), progress);
    CHECK(after.fsck(progress).problems.empty());
    CHECK(after.read_blob(Digest::of(kept)) == kept);
  }
}

}  // namespace

TEST_CASE("a repair that fails or dies at any call loses nothing more") {
  for (auto fault :
       {FaultDisk::Fault::kFail, FaultDisk::Fault::kFailAfter, FaultDisk::Fault::kDie, FaultDisk::Fault::kTear}) {
    repair_with(fault);
  }
}
