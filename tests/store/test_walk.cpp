// Walking and the stat cache: the order of files, large folders, and that the cache never hides a change.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "fixture.h"
#include "store/worktree/checkout.h"
#include "store/worktree/scan.h"
#include "store/worktree/walk.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct Watched : TestStore {
  std::string source = temp.path() + "/source";
  StatCache cache{temp.path() + "/cache.db"};

  Difference changes(const Digest& manifest) {
    return changes_since(manifest, *store, source, &cache, pool, progress).value();
  }
  // Whether the cache knows the version's files: the store here does not have them.
  bool known(const Digest& manifest) {
    TestStore other;
    return changes_since(manifest, *other.store, source, &cache, pool, progress).has_value();
  }
  // Stored and known, with all files older than the racy tick.
  Digest settle() {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    Digest id = add_folder(*store, source, nullptr, &cache, pool, progress).id;
    REQUIRE(known(id));
    REQUIRE(changes(id).empty());
    return id;
  }
  // The result of comparing whole lists, without the cache.
  bool is_right(const Difference& difference, const Digest& manifest) {
    const Difference wanted = compare(store->entries(manifest), scan(source, nullptr, pool, progress));
    return difference.added == wanted.added && difference.removed == wanted.removed &&
           difference.changed == wanted.changed;
  }
};

}  // namespace

TEST_CASE("a walk is sorted by whole paths, whatever folders are called beside files") {
  Watched t;
  std::vector<std::string> paths = {"a",        "a!",          "a!x/y",   "b/c",          "b-c",           "b.txt",
                                    "b0",       "b/c0",        "b/c.d/e", "b/c!/e",       "\x01",          "\xff",
                                    "\xff\xfe", "long-name-1", "z/y/x",   "long-name-10", "long-name-2/x", "long-name-",
                                    "ab/1",     "abc"};
  for (const std::string& path : paths) {
    if (path != "b/c") write_test_file(t.source + "/" + path, path);
  }
  paths.erase(std::find(paths.begin(), paths.end(), "b/c"));
  std::sort(paths.begin(), paths.end());
  Walk found = walk(t.source, t.pool);
  std::vector<std::string> seen;
  for (const WalkedFile& file : found.files) seen.emplace_back(file.path);
  CHECK(seen == paths);
}

TEST_CASE("a folder of more files than one thread looks at") {
  Watched t;
  for (int i = 0; i < 3000; ++i) write_test_file(fmt::format("{}/big/{}", t.source, i), "x");
  write_test_file(t.source + "/big/inner/file", "y");
  std::vector<Entry> entries = scan(t.source, nullptr, t.pool, t.progress);
  CHECK(entries.size() == 3001);
  CHECK(std::is_sorted(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; }));
  for (const Entry& entry : entries) REQUIRE(entry.size == 1);
}

TEST_CASE("the cache vouches for a folder that is just the version, and for nothing else") {
  Watched t;
  for (int i = 0; i < 20; ++i) write_test_file(fmt::format("{}/part{}/{}", t.source, i % 3, i), std::to_string(i));
  Digest id = t.settle();
  CHECK_FALSE(t.known(Digest::of("another version")));
  SUBCASE("a changed file") {
    write_test_file(t.source + "/part0/0", "9");
  }
  SUBCASE("a new file") {
    write_test_file(t.source + "/part0/new", "");
  }
  SUBCASE("a removed file") {
    ::unlink((t.source + "/part0/0").c_str());
  }
  SUBCASE("a changed, a new and a removed file beside each other") {
    write_test_file(t.source + "/part1/1", "another one");
    write_test_file(t.source + "/part1/10a", "");
    ::unlink((t.source + "/part1/13").c_str());
    ::unlink((t.source + "/part2/8").c_str());
  }
  SUBCASE("all files gone but a new one at the end") {
    for (int i = 0; i < 20; ++i) ::unlink(fmt::format("{}/part{}/{}", t.source, i % 3, i).c_str());
    write_test_file(t.source + "/z", "");
  }
  SUBCASE("a mode") {
    ::chmod((t.source + "/part0/0").c_str(), 0755);
  }
  SUBCASE("a file that was renamed") {
    REQUIRE(::rename((t.source + "/part0/0").c_str(), (t.source + "/part0/00").c_str()) == 0);
  }
  SUBCASE("a file that is ignored from now on") {
    write_test_file(t.source + "/part0/.mlxignore", "0\n");
  }
  const Difference difference = t.changes(id);
  CHECK_FALSE(difference.empty());
  CHECK(t.is_right(difference, id));
  CHECK(t.is_right(t.changes(id), id));
  checkout(*t.store, id, t.source, true, &t.cache, t.pool, t.progress);
  CHECK(t.changes(id).empty());
}

TEST_CASE("one changed file among many is told from the cache, which keeps knowing the version") {
  Watched t;
  for (int i = 0; i < 200; ++i) write_test_file(fmt::format("{}/{}", t.source, i), std::to_string(i));
  const Digest id = t.settle();
  write_test_file(t.source + "/100", "another");
  for (int again = 0; again < 2; ++again) {
    CHECK(t.is_right(t.changes(id), id));
    CHECK(t.known(id));
  }
  write_test_file(t.source + "/100", "100");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(t.changes(id).empty());
  CHECK(t.known(id));
  // Nearly all of them: hashed once, then remembered.
  for (int i = 0; i < 190; ++i) write_test_file(fmt::format("{}/{}", t.source, i), "another");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(t.is_right(t.changes(id), id));
  CHECK_FALSE(t.known(id));
  CHECK(t.is_right(t.changes(id), id));
}

TEST_CASE("the cache does not vouch for a version while a file in it is racy") {
  Watched t;
  write_test_file(t.source + "/old", "old");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  write_test_file(t.source + "/young", "1");
  Digest id = add_folder(*t.store, t.source, nullptr, &t.cache, t.pool, t.progress).id;
  write_test_file(t.source + "/young", "2");
  CHECK_FALSE(t.known(id));
  const Difference now = t.changes(id);
  REQUIRE(now.changed.size() == 1);
  CHECK(now.changed[0].second.content == Digest::of("2"));
}

TEST_CASE("a stat cache cut short or altered is refused, never read beyond its end") {
  Watched t;
  for (int i = 0; i < 5; ++i) write_test_file(fmt::format("{}/{}", t.source, i), std::to_string(i));
  t.settle();
  Database database(t.temp.path() + "/cache.db", Database::Open::kReadWrite);
  Statement statement = database.prepare("SELECT files FROM folders");
  REQUIRE(statement.step());
  Bytes whole = statement.blob(0);
  CHECK(CachedFiles(whole).size() == 5);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(error_of([&] { CachedFiles(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))); }) ==
          ErrorKind::kCorrupt);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes bytes = whole;
    bytes[at] ^= 0x80;
    error_of([&] {
      CachedFiles files(std::move(bytes));
      for (std::size_t i = 0; i < files.size(); ++i) CHECK(files.file(i).path.size() <= whole.size());
    });
  }
}
