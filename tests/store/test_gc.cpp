// gc: referenced objects stay readable, others are removed, and at no moment does a writer, a reader or a crash lose
// anything.
#include <sys/stat.h>
#include <utime.h>

#include <algorithm>

#include "../stride.h"
#include "fixture.h"
#include "store/format/pack_format.h"
#include "store/maintenance/copies.h"
#include "store/maintenance/gc.h"
#include "store/pack/pins.h"

using namespace mlx;
using namespace mlx::store;

namespace {

const StoreOptions kPacksOfOne{300'000};

Bytes packed_content(int step) {
  return random_bytes(400'000, static_cast<std::uint64_t>(step));
}

// A version of one file, in packs of its own.
Digest add_version(Store& store, int step) {
  auto batch = store.begin();
  Bytes content = packed_content(step);
  Digest id = batch->add_manifest({{"file", kModeFile, content.size(), batch->add_blob(content)}}).id;
  batch->commit();
  return id;
}

bool is_whole(Store& store, const Digest& manifest, int step) {
  auto entry = store.find(manifest, "file");
  return entry && store.read_blob(entry->content) == packed_content(step);
}

GcReport collect(Store& store, std::vector<Digest> manifests, bool remove = true, std::int64_t grace = 0) {
  NoProgress progress;
  return collect_garbage(
      store, [&] { return GcRoots{.manifests = manifests}; }, {.grace_seconds = grace, .remove = remove}, progress);
}

// Another store on the same folder, as in another process.
struct Other {
  std::unique_ptr<Disk> disk = unsynced_disk();
  Pool pool{1};
  Store store;
  explicit Other(const std::string& folder) : store(folder, *disk, pool, kPacksOfOne) {}
};

void expect_clean(const std::string& folder) {
  Other other(folder);
  NoProgress progress;
  CHECK(other.store.fsck(progress).problems.empty());
}

}  // namespace

TEST_CASE("gc removes what no reference reaches, and says before what it will do") {
  TestStore t(kPacksOfOne);
  Digest kept, dropped;
  {
    Other writer(t.folder);
    kept = add_version(writer.store, 1);
    dropped = add_version(writer.store, 2);
  }
  GcReport dry = collect(*t.store, {kept}, false);
  CHECK(t.files_in_packs(".pack").size() == dry.packs);
  GcReport done = collect(*t.store, {kept});
  CHECK(dry.removed_packs == done.removed_packs);
  CHECK(dry.freed_bytes == done.freed_bytes);
  CHECK(done.removed_packs == 2);
  CHECK(done.freed_bytes > 400'000);
  CHECK(is_whole(*t.store, kept, 1));
  CHECK_FALSE(t.store->has(ObjectKind::kManifest, dropped));
  CHECK(collect(*t.store, {kept}).removed_packs == 0);
  CHECK(collect(*t.store, {}).removed_packs == 2);
  CHECK(t.store->stat().objects == 0);
  expect_clean(t.folder);
}

// A disk with no room until something was removed, and then with `room` bytes.
class FullDisk final : public Disk {
 public:
  explicit FullDisk(std::uint64_t room) : room_(room) {}
  Fd create(const std::string& path) override { return real_->create(path); }
  Fd open_append(const std::string& path) override { return real_->open_append(path); }
  void write(const Fd& fd, ByteView bytes, const std::string& path) override {
    if (bytes.size() > free_) fail_errno(ENOSPC, path, "write");
    free_ -= bytes.size();
    real_->write(fd, bytes, path);
  }
  void sync(const Fd&, const std::string&) override {}
  void sync_folder(const std::string&) override {}
  void rename(const std::string& from, const std::string& to) override { real_->rename(from, to); }
  void truncate(const std::string& path, std::uint64_t size) override { real_->truncate(path, size); }
  void remove(const std::string& path) override {
    if (path.ends_with(".pack")) free_ += room_;
    real_->remove(path);
  }

 private:
  std::unique_ptr<Disk> real_ = real_disk();
  std::uint64_t room_, free_ = 0;
};

TEST_CASE("bug: gc removes packs on a full disk, where not a byte can be written first") {
  for (const std::uint64_t room : {0, 400'000}) {
    CAPTURE(room);
    TestStore t(kPacksOfOne);
    Digest kept;
    {
      Other writer(t.folder);
      kept = add_version(writer.store, 1);
      for (int step : {2, 3, 4}) add_version(writer.store, step);
    }
    FullDisk disk(room);
    Store full(t.folder, disk, t.pool, kPacksOfOne);
    const GcReport report = collect(full, {kept});
    CHECK(report.removed_packs > 3);
    CHECK(t.files_in_packs(".pack").size() == report.packs - report.removed_packs);
    CHECK(t.files_in_packs("condemned").empty());
    CHECK(t.files_in_packs(".lock") == std::vector<std::string>{"gc.lock"});
    CHECK(is_whole(full, kept, 1));
    expect_clean(t.folder);
  }
}

TEST_CASE("gc copies what lives out of packs with garbage") {
  TestStore t;
  Digest kept, dropped;
  {
    Other writer(t.folder);
    auto batch = writer.store.begin();
    for (int step : {1, 2}) {
      Bytes content = packed_content(step);
      (step == 1 ? kept : dropped) =
          batch->add_manifest({{"file", kModeFile, content.size(), batch->add_blob(content)}}).id;
    }
    batch->commit();
  }
  t.store->reload();
  std::uint64_t before = t.store->stat().stored_bytes;
  GcReport report = collect(*t.store, {kept});
  CHECK(report.rewritten_packs > 0);
  CHECK(t.store->stat().stored_bytes < before / 2 + 10'000);
  CHECK(is_whole(*t.store, kept, 1));
  CHECK(collect(*t.store, {kept}).rewritten_packs == 0);
  expect_clean(t.folder);
}

TEST_CASE("gc leaves young packs, and what they name in old ones") {
  TestStore t;
  Digest manifest;
  {
    Other writer(t.folder);
    Bytes content = packed_content(1);
    auto first = writer.store.begin();
    first->add_blob(content);
    first->commit();
    for (const std::string& name : t.files_in_packs(".pack")) {
      struct utimbuf old {
        1000, 1000
      };
      REQUIRE(::utime((t.folder + "/packs/" + name).c_str(), &old) == 0);
    }
    manifest = add_version(writer.store, 1);  // its file is there already
  }
  GcReport report = collect(*t.store, {}, true, 3600);
  CHECK(report.removed_packs == 0);
  CHECK(report.young_packs == 1);
  CHECK(is_whole(*t.store, manifest, 1));
  collect(*t.store, {}, true, 0);
  CHECK(t.files_in_packs(".pack").empty());
}

TEST_CASE("gc leaves what a living writer has added or found, until it is closed") {
  TestStore t(kPacksOfOne);
  Digest first;
  {
    Other before(t.folder);
    first = add_version(before.store, 1);
  }
  {
    Other writer(t.folder);
    CHECK(add_version(writer.store, 1) == first);  // found
    Digest second = add_version(writer.store, 2);  // added
    GcReport report = collect(*t.store, {});
    CHECK(report.removed_packs == 0);
    CHECK(report.pinned_packs == t.files_in_packs(".pack").size());
    CHECK(is_whole(*t.store, first, 1));
    CHECK(is_whole(*t.store, second, 2));
  }
  collect(*t.store, {first});
  CHECK(is_whole(*t.store, first, 1));
  CHECK(collect(*t.store, {}).removed_packs > 0);
  CHECK(t.files_in_packs(".pack").empty());
  CHECK(t.files_in_packs(".lock").size() == 1);  // gc.lock
}

TEST_CASE("a writer that looks up what a gc has just removed stores it again") {
  TestStore t(kPacksOfOne);
  {
    Other before(t.folder);
    add_version(before.store, 1);
  }
  Other writer(t.folder);  // has the packs in its picture
  collect(*t.store, {});
  Digest again = add_version(writer.store, 1);
  t.store->reload();
  CHECK(is_whole(*t.store, again, 1));
  expect_clean(t.folder);
}

TEST_CASE("a reference recorded while gc was marking is seen before anything goes") {
  TestStore t(kPacksOfOne);
  Digest version;
  {
    Other writer(t.folder);
    version = add_version(writer.store, 1);
  }
  int calls = 0;
  NoProgress progress;
  GcReport report = collect_garbage(
      *t.store,
      [&] {
        // By the second call the writer has released its pin and recorded its reference.
        return ++calls == 1 ? GcRoots{} : GcRoots{.manifests = {version}};
      },
      {.grace_seconds = 0, .remove = true}, progress);
  CHECK(calls == 2);
  CHECK(report.removed_packs == 0);
  CHECK(is_whole(*t.store, version, 1));
}

TEST_CASE("a reader with an old picture follows objects into rewritten packs") {
  TestStore t;
  Digest kept, dropped;
  {
    Other writer(t.folder);
    auto batch = writer.store.begin();
    for (int step : {1, 2}) {
      Bytes content = packed_content(step);
      (step == 1 ? kept : dropped) =
          batch->add_manifest({{"file", kModeFile, content.size(), batch->add_blob(content)}}).id;
    }
    batch->commit();
  }
  Other reader(t.folder);
  Digest file = reader.store.find(kept, "file")->content;
  BlobReader blob = reader.store.open_blob(file);
  Other late(t.folder);  // has opened no pack yet
  collect(*t.store, {kept});
  Bytes read(400'000);
  CHECK(blob.read_at(0, read.data(), read.size()) == read.size());
  CHECK(read == packed_content(1));
  CHECK(is_whole(late.store, kept, 1));
  CHECK_THROWS_AS(late.store.read(ObjectKind::kManifest, dropped), Error);
}

TEST_CASE("a list that stays keeps its chunks, so that a writer may trust it") {
  // A dead list in a pack that is mostly alive, its chunks in a pack that is dead.
  TestStore t;
  Bytes shared = random_bytes(3'000'000, 7), gone = random_bytes(200'000, 8);
  Digest kept;
  {
    Other writer(t.folder);
    auto chunks = writer.store.begin();
    Bytes more = gone;
    more.push_back(1);
    chunks->add_blob(more);  // has all but the last chunk of `gone`
    chunks->commit();
    auto batch = writer.store.begin();
    kept = batch->add_manifest({{"file", kModeFile, shared.size(), batch->add_blob(shared)}}).id;
    batch->add_blob(gone);
    batch->commit();
  }
  collect(*t.store, {kept});
  Digest id = Digest::of(gone);
  CHECK((!t.store->has_blob(id) || t.store->has_whole_blob(id)));
  CHECK(t.store->read_blob(t.store->find(kept, "file")->content) == shared);
  expect_clean(t.folder);
}

TEST_CASE("the index over many packs is written anew, and readers use it") {
  TestStore t(kPacksOfOne);
  std::vector<Digest> kept;
  {
    Other writer(t.folder);
    for (int step = 0; step < 12; ++step) {
      Digest id = add_version(writer.store, step);
      if (step % 2 == 0) kept.push_back(id);
    }
  }
  REQUIRE(path_exists(t.folder + "/packs/multi.idx"));
  collect(*t.store, kept);
  Other reader(t.folder);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(is_whole(reader.store, kept[i], static_cast<int>(2 * i)));
  Bytes multi = read_file(t.folder + "/packs/multi.idx");
  CHECK(ByteReader(ByteView(multi).subspan(12, 4)).u32() == t.files_in_packs(".pack").size());
  expect_clean(t.folder);
}

TEST_CASE("gc refuses where damage hides what is needed, and where another one runs") {
  TestStore t(kPacksOfOne);
  Digest version;
  {
    Other writer(t.folder);
    version = add_version(writer.store, 1);
  }
  NoProgress progress;
  auto nested = [&] {
    collect_garbage(
        *t.store,
        [&] {
          Other second(t.folder);
          collect(second.store, {version});
          return GcRoots{};
        },
        {.grace_seconds = 0, .remove = true}, progress);
  };
  CHECK(error_of(nested) == ErrorKind::kConflict);
  // The pack of the manifest: its stored bytes, then the pack's footer.
  std::string path;
  std::size_t manifest = 0;
  for (const std::string& name : t.files_in_packs(".pack")) {
    std::string candidate = t.folder + "/packs/" + name;
    Bytes bytes = read_file(candidate);
    std::size_t found = as_text(bytes).find("MLXE\x03");
    if (found == std::string_view::npos) continue;
    path = candidate;
    manifest = found + kEntryHeaderSize;
  }
  REQUIRE(manifest > 0);
  Bytes whole = read_file(path);
  // In the manifest, in the footer, and an id in the index, which would look like a dead object.
  for (std::size_t at : {manifest, whole.size() - 3, whole.size() - kFooterSize - kRecordSize}) {
    Bytes damaged = whole;
    damaged[at] ^= 1;
    write_test_file(path, damaged);
    Other other(t.folder);
    CHECK(error_of([&] { collect(other.store, {version}); }) == ErrorKind::kCorrupt);
  }
  write_test_file(path, whole);
  expect_clean(t.folder);
}

TEST_CASE("a pin that cannot be read keeps everything") {
  TestStore t(kPacksOfOne);
  {
    Other writer(t.folder);
    add_version(writer.store, 1);
  }
  TemporaryFiles strange(t.folder + "/packs", *t.disk);
  strange.note("not a pack\n");
  CHECK(collect(*t.store, {}).removed_packs == 0);
  strange.release();
  CHECK(collect(*t.store, {}).removed_packs > 0);
}

namespace {

void gc_with(FaultDisk::Fault fault) {
  Pool pool(1);
  NoProgress progress;
  for (int at = 1, calls = 1; at <= calls + 1; at += mlx::test::stride()) {
    CAPTURE(at);
    TestStore t(kPacksOfOne);
    std::vector<Digest> kept;
    {
      Other writer(t.folder);
      auto batch = writer.store.begin();
      for (int step = 0; step < 3; ++step) {
        Bytes content = packed_content(step);
        Digest id = batch->add_manifest({{"file", kModeFile, content.size(), batch->add_blob(content)}}).id;
        if (step == 1) kept.push_back(id);
      }
      batch->commit();
      add_version(writer.store, 4);
    }
    FaultDisk disk(fault, at);
    bool finished = false;
    {
      Store store(t.folder, disk, pool, kPacksOfOne);
      try {
        collect(store, kept);
        finished = true;
      } catch (const Error& error) {
        CHECK(error.kind == ErrorKind::kIo);
      } catch (const Killed&) {
      }
    }
    calls = std::max(calls, disk.calls());
    if (at > disk.calls()) CHECK(finished);
    // Kept objects are undamaged and complete, and the next writer and gc succeed.
    {
      Other after(t.folder);
      CHECK(is_whole(after.store, kept[0], 1));
      NoProgress quiet;
      CHECK(after.store.fsck(quiet).problems.empty());
      for (int step : {0, 2, 4}) {
        Digest file = Digest::of(packed_content(step));
        if (after.store.has_blob(file)) CHECK(after.store.has_whole_blob(file));
      }
      Digest again = add_version(after.store, 0);
      CHECK(is_whole(after.store, again, 0));
      kept.push_back(again);
    }
    {
      Other after(t.folder);
      collect(after.store, kept);
      CHECK(is_whole(after.store, kept[0], 1));
      CHECK(is_whole(after.store, kept[1], 0));
      CHECK_FALSE(after.store.has_blob(Digest::of(packed_content(4))));
    }
    expect_clean(t.folder);
    CHECK_FALSE(path_exists(t.folder + "/packs/condemned"));
  }
}

}  // namespace

TEST_CASE("a gc whose disk fails at any call loses nothing" * doctest::test_suite("long")) {
  gc_with(FaultDisk::Fault::kFail);
}
TEST_CASE("a gc on a disk that stays full loses nothing" * doctest::test_suite("long")) {
  gc_with(FaultDisk::Fault::kFailAfter);
}
TEST_CASE("a gc that dies before any call loses nothing, and the next one ends its work" *
          doctest::test_suite("long")) {
  gc_with(FaultDisk::Fault::kDie);
}
TEST_CASE("a gc whose write is torn loses nothing" * doctest::test_suite("long")) {
  gc_with(FaultDisk::Fault::kTear);
}

TEST_CASE("gc: a store of copies keeps those that were used last, and those in use") {
  TestStore t(kPacksOfOne);
  std::vector<Digest> versions;
  for (int step = 0; step < 4; ++step) {
    versions.push_back(add_version(*t.store, step));
    (void)use_copy(*t.store, *t.disk, versions.back());
    const utimbuf times{1000 + step, 1000 + step};
    REQUIRE(::utime((t.folder + "/copies/" + versions.back().hex()).c_str(), &times) == 0);
  }
  add_version(*t.store, 4);  // of which nothing is known
  const std::uint64_t each = packed_content(0).size();
  const auto left = [&](std::uint64_t limit, std::int64_t grace) {
    Other other(t.folder);
    limit_copies(other.store, *other.disk, limit, grace, t.progress);
    t.store->reload();
    std::string out;
    for (int step = 0; step < 4; ++step) {
      const Digest& version = versions[static_cast<std::size_t>(step)];
      out += t.store->has(ObjectKind::kManifest, version) && is_whole(*t.store, version, step) ? '1' : '0';
    }
    return out;
  };
  {
    t.store = std::make_unique<Store>(t.folder, *t.disk, t.pool, kPacksOfOne);  // whose pins are gone
    CHECK(left(10 * each, 0) == "1111");
    CHECK(t.store->stat().stored_bytes < 5 * each);  // the unknown one is gone
    const Fd in_use = use_copy(*t.store, *t.disk, versions[0]);
    CHECK(left(2 * each + each / 2, 3600) == "1111");  // all packs are young
    const utimbuf first{1, 1};
    REQUIRE(::utime((t.folder + "/copies/" + versions[0].hex()).c_str(), &first) == 0);
    for (int step = 1; step < 4; ++step) (void)use_copy(*t.store, *t.disk, versions[static_cast<std::size_t>(step)]);
    CHECK(left(each + each / 2, 0) == "1001");  // the oldest is in use, the last one fits beside it
  }
  CHECK(left(each / 2, 0) == "0000");
  expect_clean(t.folder);
}
