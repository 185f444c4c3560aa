// scan, add_folder, compare, checkout and .mlxignore on real folders.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "fixture.h"
#include "store/worktree/checkout.h"
#include "store/worktree/ignore.h"
#include "store/worktree/scan.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct Tree : TestStore {
  std::string source = temp.path() + "/source";
  std::string target = temp.path() + "/target";
  StatCache cache{temp.path() + "/cache.db"};

  ManifestSummary add(const std::string& path) { return add_folder(*store, path, nullptr, &cache, pool, progress); }
  void check_out(const Digest& id, bool force = false) { checkout(*store, id, target, force, &cache, pool, progress); }
  std::vector<Entry> scan_fresh(const std::string& path) { return scan(path, nullptr, pool, progress); }
};

// Counts hashed bytes: those that the cache did not save.
class CountingProgress final : public Progress {
 public:
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t count) override { bytes += count; }
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view) override {}
  std::atomic<std::uint64_t> bytes{0};
};

void past_the_racy_tick() {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

}  // namespace

TEST_CASE("2000 small files: added, one changed, added again, checked out elsewhere" * doctest::test_suite("long")) {
  Tree t;
  for (int i = 0; i < 2000; ++i) {
    write_test_file(fmt::format("{}/part{}/file{}", t.source, i % 13, i), fmt::format("number {}", i));
  }
  past_the_racy_tick();
  ManifestSummary first = t.add(t.source);
  CHECK(first.files == 2000);
  std::vector<Entry> entries = t.store->entries(first.id);
  CHECK(entries == t.scan_fresh(t.source));

  write_test_file(t.source + "/part0/file0", "changed");
  CountingProgress counting;
  ManifestSummary second = add_folder(*t.store, t.source, nullptr, &t.cache, t.pool, counting);
  CHECK(counting.bytes == 7);  // the others came from the stat cache
  CHECK(second.id != first.id);
  Difference difference = compare(entries, t.store->entries(second.id));
  CHECK(difference.added.empty());
  CHECK(difference.removed.empty());
  REQUIRE(difference.changed.size() == 1);
  CHECK(difference.changed[0].first.path == "part0/file0");

  t.check_out(second.id);
  CHECK(t.scan_fresh(t.target) == t.scan_fresh(t.source));
  CountingProgress after;
  scan(t.target, &t.cache, t.pool, after);
  CHECK(after.bytes == 0);  // checkout told the cache
  t.check_out(first.id);
  CHECK(t.scan_fresh(t.target) == entries);
}

TEST_CASE("modes, links, empty files, odd names and deep folders survive a round trip") {
  Tree t;
  write_test_file(t.source + "/run", "#!/bin/sh\n");
  ::chmod((t.source + "/run").c_str(), 0755);
  write_test_file(t.source + "/empty", "");
  write_test_file(t.source + "/a/b/c/d/deep", random_bytes(300'000, 1));
  write_test_file(t.source + "/\xff\xfe \n\t'\"", "bytes");
  REQUIRE(::symlink("a/b", (t.source + "/link").c_str()) == 0);
  REQUIRE(::symlink("/nowhere", (t.source + "/dangling").c_str()) == 0);
  ManifestSummary summary = t.add(t.source);
  CHECK(summary.files == 6);
  t.check_out(summary.id);
  CHECK(t.scan_fresh(t.target) == t.scan_fresh(t.source));
  CHECK(::access((t.target + "/run").c_str(), X_OK) == 0);

  SUBCASE("a mode alone is put right") {
    ::chmod((t.target + "/run").c_str(), 0644);
    t.check_out(summary.id);
    CHECK(::access((t.target + "/run").c_str(), X_OK) == 0);
  }
  SUBCASE("a folder becomes a file and back") {
    remove_tree(t.source + "/a");
    write_test_file(t.source + "/a", "now a file");
    ManifestSummary other = t.add(t.source);
    t.check_out(other.id);
    CHECK(t.scan_fresh(t.target) == t.scan_fresh(t.source));
    t.check_out(summary.id);
    CHECK(t.scan_fresh(t.target) == t.store->entries(summary.id));
  }
}

TEST_CASE("a single file is a version of one entry") {
  Tree t;
  write_test_file(t.temp.path() + "/table.csv", "a,b\n1,2\n");
  ManifestSummary summary = t.add(t.temp.path() + "/table.csv");
  CHECK(t.store->entries(summary.id).at(0).path == "table.csv");
  make_folders(t.temp.path() + "/elsewhere");
  std::string target = t.temp.path() + "/elsewhere/table.csv";
  checkout(*t.store, summary.id, target, false, &t.cache, t.pool, t.progress);
  CHECK(read_text(target) == "a,b\n1,2\n");
  write_test_file(target, "precious");
  CHECK(error_of([&] { checkout(*t.store, summary.id, target, false, &t.cache, t.pool, t.progress); }) ==
        ErrorKind::kConflict);
  CHECK(read_text(target) == "precious");
}

TEST_CASE("checkout does not lose what is not stored unless it is forced") {
  Tree t;
  write_test_file(t.source + "/one", "one");
  write_test_file(t.source + "/two", "two");
  ManifestSummary both = t.add(t.source);
  t.check_out(both.id);
  SUBCASE("a changed file") {
    write_test_file(t.target + "/one", "mine");
  }
  SUBCASE("a new file") {
    write_test_file(t.target + "/three", "mine");
  }
  SUBCASE("a folder in the way") {
    remove_tree(t.target + "/one");
    write_test_file(t.target + "/one/inside", "mine");
  }
  auto before = t.scan_fresh(t.target);
  CHECK(error_of([&] { t.check_out(both.id); }) == ErrorKind::kConflict);
  CHECK(t.scan_fresh(t.target) == before);
  t.check_out(both.id, true);
  CHECK(t.scan_fresh(t.target) == t.store->entries(both.id));
}

TEST_CASE("checkout never writes through a link in the folder") {
  Tree t;
  write_test_file(t.source + "/sub/file", "from the version");
  ManifestSummary summary = t.add(t.source);
  std::string outside = t.temp.path() + "/outside";
  make_folders(outside);
  make_folders(t.target);
  REQUIRE(::symlink(outside.c_str(), (t.target + "/sub").c_str()) == 0);
  write_test_file(t.target + "/.mlxignore", "sub\n");  // hides the link from scan
  CHECK(error_of([&] { t.check_out(summary.id); }) == ErrorKind::kConflict);
  t.check_out(summary.id, true);
  CHECK(list_folder(outside).empty());
  CHECK(read_text(t.target + "/sub/file") == "from the version");
}

TEST_CASE("checkout of content that is not there changes nothing") {
  Tree t;
  auto batch = t.store->begin();
  ManifestSummary summary = batch->add_manifest({{"missing", kModeFile, 3, Digest::of("abc")}});
  batch->commit();
  CHECK(error_of([&] { t.check_out(summary.id); }) == ErrorKind::kNotFound);
  CHECK_FALSE(path_exists(t.target));
}

TEST_CASE("the stat cache sees a change that keeps size and modification time") {
  Tree t;
  write_test_file(t.source + "/file", "aaaa");
  past_the_racy_tick();
  auto before = scan(t.source, &t.cache, t.pool, t.progress);
  struct stat status {};
  REQUIRE(::stat((t.source + "/file").c_str(), &status) == 0);
  Fd fd = open_file(t.source + "/file", O_WRONLY);
  write_all(fd.get(), as_bytes("bbbb"), "file");
  struct timespec times[2] = {status.st_atim, status.st_mtim};
  REQUIRE(::futimens(fd.get(), times) == 0);
  auto after = scan(t.source, &t.cache, t.pool, t.progress);
  CHECK(before != after);
  CHECK(after[0].content == Digest::of("bbbb"));
}

TEST_CASE("files changed in the tick in which they are recorded are hashed again") {
  Tree t;
  for (int i = 0; i < 50; ++i) {
    std::string text(4, static_cast<char>('a' + i % 26));
    write_test_file(t.source + "/keep", "x");
    Fd fd = open_file(t.source + "/file", O_WRONLY | O_CREAT);
    write_all(fd.get(), as_bytes(text), "file");
    auto entries = scan(t.source, &t.cache, t.pool, t.progress);
    CHECK(entries[0].content == Digest::of(text));
  }
}

TEST_CASE("a broken or unwritable cache counts as empty") {
  Tree t;
  write_test_file(t.source + "/file", "content");
  write_test_file(t.temp.path() + "/broken.db", random_bytes(10'000, 4));
  StatCache broken(t.temp.path() + "/broken.db");
  CHECK(scan(t.source, &broken, t.pool, t.progress).size() == 1);
  StatCache nowhere(t.temp.path() + "/no/such/folder/cache.db");
  CHECK(scan(t.source, &nowhere, t.pool, t.progress).size() == 1);
}

TEST_CASE("what cannot be scanned is an error that names it") {
  Tree t;
  CHECK(error_of([&] { t.scan_fresh(t.temp.path() + "/none"); }) == ErrorKind::kNotFound);
  make_folders(t.source);
  REQUIRE(::mkfifo((t.source + "/pipe").c_str(), 0600) == 0);
  CHECK(error_of([&] { t.scan_fresh(t.source); }) == ErrorKind::kUsage);
  write_test_file(t.source + "/.mlxignore", "pipe\n");
  CHECK(t.scan_fresh(t.source).size() == 1);
}

TEST_CASE(".mlxignore: patterns") {
  CHECK(glob_matches("*.tmp", "a.tmp"));
  CHECK_FALSE(glob_matches("*.tmp", "a/b.tmp"));
  CHECK(glob_matches("**.tmp", "a/b.tmp"));
  CHECK(glob_matches("a/**/b", "a/b"));
  CHECK(glob_matches("a/**/b", "a/x/y/b"));
  CHECK_FALSE(glob_matches("a/**/b", "a/xb"));
  CHECK(glob_matches("**/b", "b"));
  CHECK(glob_matches("**/b", "x/y/b"));
  CHECK_FALSE(glob_matches("**/b", "x/yb"));
  CHECK(glob_matches("a/**", "a/x/y"));
  CHECK(glob_matches("?b", "ab"));
  CHECK_FALSE(glob_matches("?b", "/b"));
  CHECK(glob_matches("\\*", "*"));
  CHECK_FALSE(glob_matches("\\*", "a"));
  CHECK(glob_matches("", ""));
  // Does not take exponential time.
  CHECK_FALSE(glob_matches(std::string(200, '*') + "b", std::string(2000, 'a')));
}

TEST_CASE(".mlxignore: files, nested ones, folders, and taking back") {
  Tree t;
  for (const char* path :
       {"a.tmp", "keep.tmp", "sub/b.tmp", "build/x", "sub/build", "sub/deep/only", "sub/deep/here"}) {
    write_test_file(t.source + "/" + path, "x");
  }
  write_test_file(t.source + "/.mlxignore", "# rules\n*.tmp\n!keep.tmp\nbuild/\n/sub/deep/only\n");
  write_test_file(t.source + "/sub/.mlxignore", "!b.tmp\n");
  std::vector<std::string> paths;
  for (const Entry& entry : t.scan_fresh(t.source)) paths.push_back(entry.path);
  CHECK(paths == std::vector<std::string>{".mlxignore", "keep.tmp", "sub/.mlxignore", "sub/b.tmp", "sub/build",
                                          "sub/deep/here"});
}
