// The folder remote: objects go there and back unchanged, heads change by compare-and-set, damage does not spread.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "fixture.h"
#include "store/remote/transfer.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct Pair : TestStore {
  std::string url = temp.path() + "/remote";
  std::unique_ptr<Remote> remote = open_remote(url, {.create = true}, *disk, pool);
  TestStore other;

  // A version with small and large files, and all its objects.
  std::vector<ObjectRef> make_version(Digest* id) {
    auto batch = store->begin();
    std::vector<Entry> entries;
    for (int i = 0; i < 50; ++i) {
      Bytes content = text_bytes(static_cast<std::size_t>(i) * 5000, static_cast<std::uint64_t>(i));
      entries.push_back({"file" + std::to_string(i), kModeFile, content.size(), batch->add_blob(content)});
    }
    ManifestSummary summary = batch->add_manifest(entries);
    batch->commit();
    *id = summary.id;
    std::vector<ObjectRef> objects;
    store->visit_reachable_manifest(summary.id,
                                    [&](ObjectKind kind, const Digest& object) { objects.emplace_back(kind, object); });
    return objects;
  }
};

}  // namespace

TEST_CASE("a version goes to a remote and to another store, byte for byte") {
  Pair t;
  Digest id;
  std::vector<ObjectRef> objects = t.make_version(&id);
  CHECK(missing_objects(*t.remote, objects).size() > 50);
  send_objects(*t.store, *t.remote, objects, t.progress);
  CHECK(missing_objects(*t.remote, objects).empty());
  auto packs = list_folder(t.url + "/packs");
  send_objects(*t.store, *t.remote, objects, t.progress);  // twice is fine
  CHECK(list_folder(t.url + "/packs") == packs);

  auto again = open_remote("file://" + t.url, {}, *t.disk, t.pool);
  receive_objects(*again, *t.other.store, objects, t.progress);
  CHECK(t.other.store->entries(id) == t.store->entries(id));
  for (const Entry& entry : t.store->entries(id)) {
    CHECK(t.other.store->read_blob(entry.content) == t.store->read_blob(entry.content));
  }
  CHECK(t.other.store->fsck(t.progress).problems.empty());
}

TEST_CASE("a remote that lacks an object publishes nothing") {
  Pair t;
  Digest id;
  std::vector<ObjectRef> objects = t.make_version(&id);
  objects.emplace_back(ObjectKind::kOperation, Digest::of("not there"));
  CHECK(error_of([&] { send_objects(*t.store, *t.remote, objects, t.progress); }) == ErrorKind::kNotFound);
  CHECK(list_folder(t.url + "/packs") == std::vector<std::string>{"FORMAT", "FORMAT.copy"});
}

TEST_CASE("damage in a remote is not received") {
  Pair t;
  Digest id;
  std::vector<ObjectRef> objects = t.make_version(&id);
  send_objects(*t.store, *t.remote, objects, t.progress);
  for (const std::string& name : list_folder(t.url + "/packs")) {
    if (!name.ends_with(".pack")) continue;
    std::string path = t.url + "/packs/" + name;
    Bytes pack = read_file(path);
    // A third of it: one byte may be of an entry's header, which nothing here reads. fsck's tests flip single bits.
    for (std::size_t i = pack.size() / 3; i < pack.size() * 2 / 3; ++i) pack[i] ^= 0x40;
    write_file_atomically(path, pack);
  }
  CHECK(error_of([&] {
          receive_objects(*open_remote(t.url, {}, *t.disk, t.pool), *t.other.store, objects, t.progress);
        }) == ErrorKind::kCorrupt);
  CHECK(t.other.files_in_packs(".pack").empty());
}

TEST_CASE("heads change by compare-and-set") {
  Pair t;
  Digest a = Digest::of("a"), b = Digest::of("b"), c = Digest::of("c");
  CHECK(t.remote->heads().empty());
  CHECK(t.remote->publish_heads({}, {b, a}));
  std::vector<Digest> both{a, b};
  std::sort(both.begin(), both.end());
  CHECK(t.remote->heads() == both);
  CHECK_FALSE(t.remote->publish_heads({}, {c}));
  CHECK_FALSE(t.remote->publish_heads({a}, {c}));
  CHECK(t.remote->heads() == both);
  CHECK(t.remote->publish_heads({b, a}, {c}));
  CHECK(t.remote->heads() == std::vector<Digest>{c});
}

TEST_CASE("of several that race to publish, each step is won by one") {
  Pair t;
  constexpr int kThreads = 4, kSteps = 20;
  std::atomic<int> won{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int n = 0; n < kThreads; ++n) {
    threads.emplace_back([&, n] {
      auto remote = open_remote(t.url, {}, *t.disk, t.pool);
      for (int step = 0; step < kSteps; ++step) {
        auto seen = remote->heads();
        std::string text = seen.empty() ? "start" : seen[0].hex();
        if (remote->publish_heads(seen, {Digest::of(text + std::to_string(n))})) ++won;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(won > 0);
  CHECK(won <= kThreads * kSteps);
  CHECK(t.remote->heads().size() == 1);
}

TEST_CASE("damaged heads, unknown schemes and missing folders are clear errors") {
  Pair t;
  for (const char* text : {"", "mlx heads 2\n", "mlx heads 1\nsha256:12\n", "mlx heads 1\nnonsense\n", "mlx heads 1"}) {
    for (const char* name : {"/heads", "/heads.copy"}) write_file_atomically(t.url + name, std::string_view(text));
    CHECK(error_of([&] { t.remote->heads(); }) == ErrorKind::kCorrupt);
  }
  CHECK(error_of([&] { open_remote("gopher://host/x", {.create = true}, *t.disk, t.pool); }) == ErrorKind::kUsage);
  CHECK(error_of([&] { open_remote("", {.create = true}, *t.disk, t.pool); }) == ErrorKind::kUsage);
  CHECK(error_of([&] { open_remote(t.temp.path() + "/none", {}, *t.disk, t.pool); }) == ErrorKind::kNotFound);
  make_folders(t.temp.path() + "/plain");
  CHECK(error_of([&] { open_remote(t.temp.path() + "/plain", {}, *t.disk, t.pool); }) == ErrorKind::kNotFound);
}

TEST_CASE("bug: links that others put into a remote led a push's writes elsewhere") {
  Pair t;
  const std::string outside = t.temp.path() + "/outside";
  make_folders(outside);
  for (const char* name : {"heads.lock", "file-keys.tmp", "packs"}) {
    CAPTURE(name);
    const std::string path = t.url + "/" + name, aside = t.url + "-aside";
    if (path_exists(path)) REQUIRE(::rename(path.c_str(), aside.c_str()) == 0);
    REQUIRE(::symlink((outside + "/" + name).c_str(), path.c_str()) == 0);
    CHECK(error_of([&] { t.remote->publish_heads({}, {Digest::of("a")}); }) == ErrorKind::kConflict);
    CHECK(error_of([&] { t.remote->write_file("keys", {}, as_bytes("k")); }) == ErrorKind::kConflict);
    CHECK(error_of([&] { open_remote(t.url, {.create = true}, *t.disk, t.pool); }) == ErrorKind::kConflict);
    CHECK(list_folder(outside).empty());
    REQUIRE(::unlink(path.c_str()) == 0);
    if (path_exists(aside)) REQUIRE(::rename(aside.c_str(), path.c_str()) == 0);
  }
  CHECK(t.remote->publish_heads({}, {Digest::of("a")}));
  // Even in a race with that check, the file itself is not opened through a link.
  const std::string link = t.temp.path() + "/link";
  REQUIRE(::symlink((outside + "/made").c_str(), link.c_str()) == 0);
  const auto disk = real_disk();
  CHECK(error_of([&] { disk->open_append(link); }) == ErrorKind::kConflict);
  CHECK(error_of([&] { disk->truncate(link, 0); }) == ErrorKind::kConflict);
  CHECK(list_folder(outside).empty());
}
