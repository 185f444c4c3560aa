// Small files in two copies: if one is damaged, the other repairs it; used by the store's layout and a remote's heads.
#include <algorithm>

#include "fixture.h"
#include "store/maintenance/repair.h"
#include "store/pack/layout.h"
#include "store/remote/remote.h"
#include "store/remote/transfer.h"
#include "store/small_file.h"

using namespace mlx;
using namespace mlx::store;

namespace {

using State = SmallFile::State;

Bytes bytes_of(std::string_view text) {
  return to_bytes(text);
}

// All kinds of damage to a file: flipped bits, a cut end, an empty file, no file.
std::vector<std::optional<Bytes>> damages_of(const Bytes& whole) {
  std::vector<std::optional<Bytes>> damages = {std::nullopt, Bytes()};
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes flipped = whole;
    flipped[at] ^= 1;
    damages.push_back(flipped);
    damages.emplace_back(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)));
  }
  return damages;
}

void put(const std::string& path, const std::optional<Bytes>& bytes) {
  remove_tree(path);
  if (bytes) write_test_file(path, *bytes);
}

// A folder remote with one operation, and its heads.
struct WithHeads {
  TestStore here;
  std::string url = here.temp.path() + "/remote";
  Digest operation;
  std::unique_ptr<Remote> remote = open();

  std::unique_ptr<Remote> open(bool create = true) {
    return open_remote(url, {.create = create, .environment = {}, .cache_folder = {}}, *here.disk, here.pool);
  }
  WithHeads() {
    auto batch = here.store->begin();
    operation = batch->add(ObjectKind::kOperation, as_bytes(std::string_view("operation")));
    batch->commit();
    send_objects(*here.store, *remote, {{ObjectKind::kOperation, operation}}, here.progress);
    REQUIRE(remote->publish_heads({}, {operation}));
  }
};

}  // namespace

TEST_CASE("a small file is read from whichever copy is whole, and nothing else is believed") {
  const Bytes content = bytes_of("line\n"), whole = with_check(content);
  CHECK(settle_copies(whole, whole).state == State::kWhole);
  CHECK(settle_copies(std::nullopt, std::nullopt).state == State::kAbsent);
  for (const std::optional<Bytes>& damage : damages_of(whole)) {
    const SmallFile first = settle_copies(damage, whole), second = settle_copies(whole, damage);
    CHECK(first.state == State::kHalf);
    CHECK(first.content == content);
    CHECK(second.state == State::kHalf);
    CHECK(second.content == content);
    CHECK_FALSE(settle_copies(damage, damage).readable());
  }
  // If both are whole, the first is the newer one; a single one without a check is from an older version.
  CHECK(settle_copies(with_check(bytes_of("new")), whole).content == bytes_of("new"));
  CHECK(settle_copies(content, std::nullopt).state == State::kUnchecked);
}

TEST_CASE("a small file that a fault cuts off at any call is the old or the new one") {
  for (const auto fault : {FaultDisk::Fault::kBroken, FaultDisk::Fault::kDie, FaultDisk::Fault::kTear}) {
    for (int at = 1; at <= 12; ++at) {
      CAPTURE(at);
      TempFolder folder;
      const std::string path = folder.path() + "/file";
      const auto sound = unsynced_disk();
      write_small_file(*sound, path, bytes_of("old"), {.temporary = path + ".tmp"});
      FaultDisk disk(fault, at);
      bool done = false;
      try {
        write_small_file(disk, path, bytes_of("new"), {.temporary = path + ".tmp"});
        done = true;
      } catch (const Error&) {
      } catch (const Killed&) {
      }
      const Bytes content = read_small_file(path).content;
      CHECK((content == bytes_of("new") || (!done && content == bytes_of("old"))));
      write_small_file(*sound, path, bytes_of("newer"), {.temporary = path + ".tmp"});
      CHECK(read_small_file(path).state == State::kWhole);
    }
  }
}

TEST_CASE("bug: a damaged layout of a store was never mended") {
  TestStore t;
  t.add_blob(random_bytes(1000, 1));
  const std::string path = t.folder + "/packs/FORMAT";
  const Bytes whole = read_file(path);
  for (const std::string& name : {path, copy_of(path)}) {
    for (const std::optional<Bytes>& damage :
         {std::optional<Bytes>(), std::optional(Bytes()), std::optional(bytes_of("mlx st")),
          std::optional(bytes_of("garbage\n"))}) {
      put(name, damage);
      Store store(t.folder, *t.disk, t.pool);
      const FsckReport report = store.fsck(t.progress);
      REQUIRE(report.problems.size() == 1);
      CHECK(report.problems[0].find("FORMAT") != std::string::npos);
      set_damage_aside(store, report, t.progress);
      CHECK(store.fsck(t.progress).problems.empty());
      CHECK(read_file(name) == whole);
    }
  }
  put(path, bytes_of("mlx st"));
  put(copy_of(path), std::nullopt);
  CHECK(error_of([&] { Store(t.folder, *t.disk, t.pool); }) == ErrorKind::kCorrupt);
  CHECK(repair_layout(t.folder, *t.disk, false));
  CHECK(Store(t.folder, *t.disk, t.pool).fsck(t.progress).problems.empty());
  // An earlier version's single line is read.
  put(path, bytes_of("mlx store 1\n"));
  put(copy_of(path), std::nullopt);
  CHECK(Store(t.folder, *t.disk, t.pool).fsck(t.progress).problems.empty());
}

TEST_CASE("bug: damaged heads and files of a remote were never mended") {
  WithHeads t;
  REQUIRE(t.remote->write_file("keys", std::nullopt, as_bytes(std::string_view("secret"))));
  for (const std::string name : {"heads", "heads.copy", "file-keys", "file-keys.copy"}) {
    const std::string path = t.url + "/" + name;
    const Bytes whole = read_file(path);
    for (const std::optional<Bytes>& damage : damages_of(whole)) {
      put(path, damage);
      CHECK(t.open(false)->heads() == std::vector<Digest>{t.operation});
      CHECK(t.open(false)->read_file("keys") == bytes_of("secret"));
    }
    RepairReport report;
    REQUIRE(t.remote->repair(report, t.here.progress));
    CHECK(read_file(path) == whole);
  }
}

TEST_CASE("bug: heads that were lost passed for a remote without any") {
  WithHeads t;
  for (const std::optional<Bytes>& damage : {std::optional<Bytes>(), std::optional(bytes_of("mlx heads 1"))}) {
    for (const char* name : {"/heads", "/heads.copy"}) put(t.url + name, damage);
    const auto remote = t.open();
    CHECK(error_of([&] { (void)remote->heads(); }) == ErrorKind::kCorrupt);
    CHECK_FALSE(remote->publish_heads({t.operation}, {t.operation}));  // lost heads count as none
    CHECK(remote->publish_heads({}, {t.operation}));
    CHECK(remote->heads() == std::vector<Digest>{t.operation});
  }
}

TEST_CASE("heads that an earlier version wrote, once and without a check, are read") {
  WithHeads t;
  put(t.url + "/heads", bytes_of("mlx heads 1\n" + t.operation.text() + "\n"));
  put(t.url + "/heads.copy", std::nullopt);
  CHECK(t.remote->heads() == std::vector<Digest>{t.operation});
  CHECK(t.remote->publish_heads({t.operation}, {}));
  CHECK(path_exists(t.url + "/heads.copy"));
}
