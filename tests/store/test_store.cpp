// Store, Batch and BlobReader: added content reads back, is stored once, and is visible to others only after commit.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>

#include <atomic>
#include <thread>

#include "fixture.h"
#include "store/small_file.h"
#include "store/worktree/add_files.h"

using namespace mlx;
using namespace mlx::store;

TEST_CASE("content of every size reads back whole and in parts") {
  TestStore t;
  for (std::size_t size : {0, 1, 31, 4096, 65536, 65537, 131072, 131073, 1 << 20, 20'000'001}) {
    CAPTURE(size);
    Bytes content = size % 2 ? random_bytes(size, size) : text_bytes(size, size);
    Digest id = t.add_blob(content);
    CHECK(id == Digest::of(content));
    CHECK(t.store->has_blob(id));
    CHECK(t.store->read_blob(id) == content);
    BlobReader reader = t.store->open_blob(id);
    CHECK(reader.size() == size);
    std::mt19937_64 random(7);
    for (int i = 0; i < 50 && size > 0; ++i) {
      std::size_t offset = random() % size;
      Bytes part(random() % 200'000 + 1);
      std::size_t got = reader.read_at(offset, part.data(), part.size());
      CHECK(got == std::min(part.size(), size - offset));
      CHECK(std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(got),
                       content.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
    std::uint8_t byte = 0;
    CHECK(reader.read_at(size, &byte, 1) == 0);
    CHECK(reader.read_at(~std::uint64_t{0}, &byte, 1) == 0);
  }
  FsckReport report = t.store->fsck(t.progress);
  CHECK(report.problems.empty());
}

TEST_CASE("nothing is visible before commit, and everything is afterwards, also to a new Store") {
  TestStore t;
  Digest id;
  {
    auto batch = t.store->begin();
    id = batch->add_blob(as_bytes("hello"));
    CHECK_FALSE(t.store->has_blob(id));
    batch->commit();
  }
  CHECK(t.store->has_blob(id));
  Store other(t.folder, *t.disk, t.pool);
  CHECK(as_text(other.read_blob(id)) == "hello");
  t.store.reset();
  CHECK(t.files_in_packs(".lock") == std::vector<std::string>{"gc.lock"});  // that of its pins is gone
}

TEST_CASE("a dropped batch leaves nothing") {
  TestStore t;
  auto before = list_folder(t.folder + "/packs");
  {
    auto batch = t.store->begin();
    batch->add_blob(random_bytes(3'000'000, 1));
  }
  CHECK(list_folder(t.folder + "/packs") == before);
}

TEST_CASE("the same content is stored once") {
  TestStore t;
  Bytes content = random_bytes(2'000'000, 5);
  t.add_blob(content);
  StoreStat first = t.store->stat();
  t.add_blob(content);
  CHECK(t.store->stat().packs == first.packs);
  CHECK(t.store->stat().stored_bytes == first.stored_bytes);

  SUBCASE("an insertion stores only the chunks around it") {
    content.insert(content.begin() + 1'000'000, 64, 0xab);
    t.add_blob(content);
    CHECK(t.store->stat().stored_bytes - first.stored_bytes < 300'000);
  }
}

TEST_CASE("objects that are asked for and not there are kNotFound") {
  TestStore t;
  CHECK(error_of([&] { t.store->read(ObjectKind::kManifest, Digest::of("x")); }) == ErrorKind::kNotFound);
  CHECK(error_of([&] { t.store->open_blob(Digest::of("x")); }) == ErrorKind::kNotFound);
  CHECK(error_of([&] { Store(t.temp.path() + "/nowhere", *t.disk, t.pool); }) == ErrorKind::kNotFound);
}

TEST_CASE("an unknown layout is refused") {
  TestStore t;
  write_file_atomically(t.folder + "/packs/FORMAT", with_check(as_bytes(std::string_view("mlx store 2\n"))));
  CHECK(error_of([&] { Store(t.folder, *t.disk, t.pool); }) == ErrorKind::kCorrupt);
}

TEST_CASE("manifests: entries, one entry by path, summary, and everything reachable") {
  TestStore t;
  auto batch = t.store->begin();
  std::vector<Entry> entries;
  for (int i = 0; i < 5000; ++i) {
    std::string text = "content " + std::to_string(i % 100);
    entries.push_back({"folder" + std::to_string(i % 7) + "/file" + std::to_string(i), kModeFile, text.size(),
                       batch->add_blob(as_bytes(text))});
  }
  Bytes large = random_bytes(1'000'000, 3);
  entries.push_back({"large.bin", kModeExecutable, large.size(), batch->add_blob(large)});
  ManifestSummary summary = batch->add_manifest(entries);
  batch->commit();

  CHECK(summary.files == 5001);
  CHECK(t.store->summarize(summary.id) == summary);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; });
  CHECK(t.store->entries(summary.id) == entries);
  CHECK(t.store->shards(summary.id).size() > 1);
  for (std::size_t i = 0; i < entries.size(); i += 97) CHECK(t.store->find(summary.id, entries[i].path) == entries[i]);
  CHECK_FALSE(t.store->find(summary.id, "folder0/none").has_value());
  CHECK_FALSE(t.store->find(summary.id, "").has_value());

  std::size_t objects = 0;
  t.store->visit_reachable_manifest(summary.id, [&](ObjectKind kind, const Digest& id) {
    ++objects;
    CHECK(t.store->has(kind, id));
  });
  CHECK(objects > 5001 + t.store->shards(summary.id).size());
  // The id depends on the files alone.
  auto again = t.store->begin();
  std::reverse(entries.begin(), entries.end());
  CHECK(again->add_manifest(entries) == summary);
}

TEST_CASE("a manifest refuses paths that occur twice, leave their folder, or are file and folder at once") {
  TestStore t;
  auto batch = t.store->begin();
  Digest id = batch->add_blob(as_bytes("x"));
  auto add = [&](std::vector<std::string> paths) {
    return error_of([&] {
      std::vector<Entry> entries;
      entries.reserve(paths.size());
      for (auto& path : paths) entries.push_back({path, kModeFile, 1, id});
      batch->add_manifest(entries);
    });
  };
  CHECK(add({"a", "a"}) == ErrorKind::kUsage);
  CHECK(add({"../a"}) == ErrorKind::kUsage);
  CHECK(add({"/a"}) == ErrorKind::kUsage);
  CHECK(add({""}) == ErrorKind::kUsage);
  CHECK(add({"a", "a-b", "a/b"}) == ErrorKind::kUsage);
  CHECK(add({"a", "b/c", "b/c/d/e"}) == ErrorKind::kUsage);
  CHECK(add({"a-b", "a/b", "a/c"}) == std::nullopt);
  CHECK(add({}) == std::nullopt);
}

TEST_CASE("files and links are added with their modes") {
  TestStore t;
  std::string source = t.temp.path() + "/source";
  write_test_file(source + "/plain", "plain");
  write_test_file(source + "/run", "#!/bin/sh\n");
  ::chmod((source + "/run").c_str(), 0755);
  write_test_file(source + "/empty", "");
  REQUIRE(::symlink("plain", (source + "/link").c_str()) == 0);
  write_test_file(source + "/large", random_bytes(9'000'000, 2));
  auto batch = t.store->begin();
  std::vector<std::pair<std::string, std::string>> files;
  for (const char* name : {"plain", "run", "empty", "link", "large"}) files.emplace_back(source + "/" + name, name);
  std::vector<Entry> entries = add_files(*batch, files, t.progress);
  batch->commit();
  CHECK(entries[0] == Entry{"plain", kModeFile, 5, Digest::of("plain")});
  CHECK(entries[1].mode == kModeExecutable);
  CHECK(entries[2] == Entry{"empty", kModeFile, 0, Digest::of("")});
  CHECK(entries[3] == Entry{"link", kModeLink, 5, Digest::of("plain")});
  CHECK(t.store->read_blob(entries[4].content) == random_bytes(9'000'000, 2));

  CHECK(error_of([&] { add_file(*batch, source + "/none", "none"); }) == ErrorKind::kNotFound);
  CHECK(error_of([&] { add_file(*batch, source, "folder"); }) == ErrorKind::kUsage);
  CHECK(error_of([&] { add_file(*batch, source + "/plain", "../plain"); }) == ErrorKind::kUsage);
}

TEST_CASE("a file that keeps changing while it is read is kConflict") {
  TestStore t;
  std::string path = t.temp.path() + "/growing";
  write_test_file(path, random_bytes(30'000'000, 2));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      Fd fd = open_file(path, O_WRONLY | O_APPEND);
      write_all(fd.get(), as_bytes("more"), path);
    }
  });
  auto batch = t.store->begin();
  auto kind = error_of([&] { add_file(*batch, path, "growing"); });
  stop = true;
  writer.join();
  CHECK(kind == ErrorKind::kConflict);
  CHECK(error_of([&] { add_file(*batch, path, "growing"); }) == std::nullopt);
  CHECK(error_of([&] { batch->commit(); }) == std::nullopt);
}

TEST_CASE("many packs are merged into one index, which may be lost or damaged") {
  TestStore t;
  std::vector<Digest> ids;
  ids.reserve(40);
  for (int i = 0; i < 40; ++i) ids.push_back(t.add_blob(as_bytes("blob " + std::to_string(i))));
  CHECK(t.store->stat().packs == 40);
  REQUIRE(t.files_in_packs("multi.idx").size() == 1);
  auto all_there = [&] {
    Store fresh(t.folder, *t.disk, t.pool);
    for (int i = 0; i < 40; ++i) {
      if (as_text(fresh.read_blob(ids[static_cast<std::size_t>(i)])) != "blob " + std::to_string(i)) return false;
    }
    return true;
  };
  auto problems = [&] { return Store(t.folder, *t.disk, t.pool).fsck(t.progress).problems.size(); };
  CHECK(all_there());
  CHECK(problems() == 0);
  std::string multi = t.folder + "/packs/multi.idx";
  Bytes whole = read_file(multi);
  write_file_atomically(multi, ByteView(whole).first(whole.size() / 2));
  CHECK(all_there());
  CHECK(problems() == 1);  // readers work without it; fsck reports the damage
  remove_tree(multi);
  CHECK(all_there());
  CHECK(problems() == 0);
}

TEST_CASE("temporary files of a dead writer go, those of a live one stay") {
  TestStore t;
  std::string packs = t.folder + "/packs/";
  write_test_file(packs + "tmp-0000000000000000-1-0.lock", "");
  write_test_file(packs + "tmp-0000000000000000-1-0.0", "half a pack");
  t.store->reload();
  auto live = t.store->begin();
  live->add_blob(as_bytes("kept"));
  CHECK(t.files_in_packs("-1-0.0").empty());
  t.store->reload();
  auto other = t.store->begin();
  other->add_blob(as_bytes("other"));
  other->commit();
  live->commit();
  CHECK(t.store->has_blob(Digest::of("kept")));
  CHECK(t.store->has_blob(Digest::of("other")));
}

TEST_CASE("large batches fill several packs") {
  TestStore t({1 << 20});
  Bytes content = random_bytes(10'000'000, 9);
  Digest id = t.add_blob(content);
  CHECK(t.store->stat().packs > 5);
  CHECK(t.store->read_blob(id) == content);
  CHECK(t.store->fsck(t.progress).problems.empty());
}
