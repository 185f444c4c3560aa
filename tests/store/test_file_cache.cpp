// The file cache and checkouts that link to it: one copy on disk, and a changed file is never used.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "store/worktree/checkout.h"
#include "store/worktree/file_cache.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status;
}

struct Linked : TestStore {
  std::string source = temp.path() + "/source";
  StatCache stats{temp.path() + "/cache.db"};

  Digest add() { return add_folder(*store, source, nullptr, &stats, pool, progress).id; }
  CheckoutReport check_out(const Digest& id, const std::string& into, LinkMode link) {
    const CheckoutPlan plan = plan_checkout(*store, store->entries(id), into, {}, &stats, pool, progress);
    return carry_out(*store, plan, link, &stats, pool, progress);
  }
};

}  // namespace

TEST_CASE("linked checkouts share one file, which the scan takes for what it is") {
  Linked t;
  for (int i = 0; i < 200; ++i) write_test_file(fmt::format("{}/f{}", t.source, i), fmt::format("number {}", i % 150));
  const Digest id = t.add();
  const std::string one = t.temp.path() + "/one", two = t.temp.path() + "/two";
  CHECK(t.check_out(id, one, LinkMode::kHardlink).linked == 200);
  CHECK(t.check_out(id, two, LinkMode::kHardlink).linked == 200);
  CHECK(status_of(one + "/f7").st_ino == status_of(two + "/f7").st_ino);
  CHECK(status_of(one + "/f0").st_ino == status_of(one + "/f150").st_ino);  // the same content
  CHECK(scan(one, &t.stats, t.pool, t.progress) == t.store->entries(id));
  CHECK(scan(two, nullptr, t.pool, t.progress) == t.store->entries(id));

  // Removing a shared file frees nothing: it stays unless asked for.
  CHECK(evict_files(t.store->folder(), *t.disk, false, true).files == 0);
  remove_tree(one);
  remove_tree(two);
  const CacheUse use = evict_files(t.store->folder(), *t.disk, false, true);
  CHECK(use.files == 150);
  CHECK(evict_files(t.store->folder(), *t.disk, false, false).files == 150);
  CHECK(evict_files(t.store->folder(), *t.disk, false, false).files == 0);
  CHECK(t.check_out(id, one, LinkMode::kHardlink).linked == 200);
  CHECK(evict_files(t.store->folder(), *t.disk, true, false).files == 150);
  CHECK(scan(one, nullptr, t.pool, t.progress) == t.store->entries(id));
}

TEST_CASE("a cached file that was changed, cut or replaced is made anew") {
  Linked t;
  write_test_file(t.source + "/file", "the content");
  const Digest id = t.add();
  const Entry entry = t.store->entries(id)[0];
  FileCache cache(*t.store);
  const std::string path = cache.obtain(entry, t.progress);
  const auto obtained = [&] { return read_text(cache.obtain(entry, t.progress)); };
  const ino_t inode = status_of(path).st_ino;
  CHECK(obtained() == "the content");
  CHECK(status_of(path).st_ino == inode);

  ::chmod(path.c_str(), 0644);  // alone: the content is found to be the same, and kept
  CHECK(obtained() == "the content");
  CHECK(status_of(path).st_ino == inode);
  CHECK((status_of(path).st_mode & 0777) == 0444);

  REQUIRE(::link(path.c_str(), (t.temp.path() + "/held").c_str()) == 0);  // so that its inode is not used again
  ::chmod(path.c_str(), 0644);
  write_test_file(path, "THE CONTENT");
  ::chmod(path.c_str(), 0444);
  CHECK(obtained() == "the content");
  CHECK(status_of(path).st_ino != inode);

  REQUIRE(::truncate(path.c_str(), 3) == 0);
  CHECK(obtained() == "the content");
  ::unlink(path.c_str());
  REQUIRE(::symlink("/etc/passwd", path.c_str()) == 0);
  CHECK(obtained() == "the content");
  CHECK(S_ISREG(status_of(path).st_mode));
}

TEST_CASE("bug: a link in the cache led eviction, and what was made, out of it") {
  Linked t;
  write_test_file(t.source + "/file", "the content");
  const Entry entry = t.store->entries(t.add())[0];
  const std::string files = t.store->folder() + "/cache/files", outside = t.temp.path() + "/outside";
  const std::string rest(62, 'a');
  for (const std::string& name : {std::string("/note"), "/" + rest, "/aa/" + rest})
    write_test_file(outside + name, "x");
  std::string path;
  {
    FileCache cache(*t.store);
    path = cache.obtain(entry, t.progress);
  }
  const std::string part = parent_path(path), boot = parent_path(part);
  write_test_file(files + "/stray", "x");
  write_test_file(part + "/stray", "x");
  REQUIRE(::symlink(outside.c_str(), (files + "/0000000000000001").c_str()) == 0);
  REQUIRE(::symlink(outside.c_str(), (boot + "/zz").c_str()) == 0);
  REQUIRE(::symlink(outside.c_str(), (boot + "/a0").c_str()) == 0);
  CHECK(evict_files(t.store->folder(), *t.disk, true, false).files == 1);
  CHECK_FALSE(path_exists(path));
  for (const std::string& name : {std::string("/note"), "/" + rest, "/aa/" + rest}) CHECK(path_exists(outside + name));

  const auto refused = [&](const std::string& link) {
    remove_tree(files);
    make_folders(parent_path(link));
    REQUIRE(::symlink(outside.c_str(), link.c_str()) == 0);
    return error_of([&] { FileCache(*t.store).obtain(entry, t.progress); }) == ErrorKind::kIo;
  };
  CHECK(refused(boot));
  CHECK(refused(part));
  CHECK_FALSE(path_exists(outside + "/" + base_name(path)));
  CHECK_FALSE(path_exists(outside + "/" + base_name(part) + "/" + base_name(path)));
}

TEST_CASE("bug: a named pipe in the place of a cached file was waited for") {
  Linked t;
  write_test_file(t.source + "/file", "the content");
  const Entry entry = t.store->entries(t.add())[0];
  FileCache cache(*t.store);
  const std::string path = cache.obtain(entry, t.progress);
  ::unlink(path.c_str());
  REQUIRE(::mkfifo(path.c_str(), 0444) == 0);
  CHECK(read_text(cache.obtain(entry, t.progress)) == "the content");
}

TEST_CASE("a file of an earlier boot is read before it is trusted") {
  Linked t;
  write_test_file(t.source + "/good", "good");
  write_test_file(t.source + "/torn", "torn");
  const std::vector<Entry> entries = t.store->entries(t.add());
  const std::string files = t.store->folder() + "/cache/files";
  std::string good, torn;
  {
    FileCache cache(*t.store);
    good = cache.obtain(entries[0], t.progress);
    torn = cache.obtain(entries[1], t.progress);
  }
  // As a power loss would leave it: size, mode and time are right, the bytes are not.
  const struct stat before = status_of(torn);
  ::chmod(torn.c_str(), 0644);
  write_test_file(torn, std::string(4, '\0'));
  ::chmod(torn.c_str(), 0444);
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  ::utimensat(AT_FDCWD, torn.c_str(), times, 0);
  const std::string boot = list_folder(files).at(0);
  REQUIRE(::rename((files + "/" + boot).c_str(), (files + "/0000000000000001").c_str()) == 0);

  FileCache cache(*t.store);
  CHECK(read_text(cache.obtain(entries[0], t.progress)) == "good");
  CHECK(read_text(cache.obtain(entries[1], t.progress)) == "torn");
  CHECK(evict_files(t.store->folder(), *t.disk, false, false).files == 2);
  CHECK(list_folder(files) == std::vector<std::string>{boot});
}

TEST_CASE("a folder that holds unseen files where a file must go stops a checkout before anything is removed") {
  Linked t;
  write_test_file(t.source + "/name", "a file");
  const Digest id = t.add();
  const std::string target = t.temp.path() + "/target";
  write_test_file(target + "/.mlxignore", "*.tmp\n");
  write_test_file(target + "/name/stored", "a file");
  write_test_file(target + "/name/x.tmp", "mine");
  CheckoutOptions force;
  force.force = true;
  CHECK(error_of([&] { plan_checkout(*t.store, t.store->entries(id), target, force, nullptr, t.pool, t.progress); }) ==
        ErrorKind::kConflict);
  CHECK(path_exists(target + "/name/stored"));
  ::unlink((target + "/name/x.tmp").c_str());
  make_folders(target + "/name/empty/deep");
  const CheckoutPlan plan = plan_checkout(*t.store, t.store->entries(id), target, force, nullptr, t.pool, t.progress);
  carry_out(*t.store, plan, LinkMode::kCopy, nullptr, t.pool, t.progress);
  CHECK(read_text(target + "/name") == "a file");
}

TEST_CASE("a part of a version leaves the rest alone") {
  Linked t;
  write_test_file(t.source + "/a/1", "one");
  write_test_file(t.source + "/ab", "not inside");
  write_test_file(t.source + "/b/1", "one");
  const std::vector<Entry> entries = t.store->entries(t.add());
  CHECK(entries_inside(entries, "a").size() == 1);
  CHECK(entries_inside(entries, "ab").size() == 1);
  CHECK(entries_inside(entries, "").size() == 3);
  write_test_file(t.source + "/a/1", "mine, not stored");
  write_test_file(t.source + "/b/2", "mine, not stored either");
  CheckoutOptions part;
  part.inside = "a";
  const auto plan = [&] {
    return plan_checkout(*t.store, entries_inside(entries, "a"), t.source, part, &t.stats, t.pool, t.progress);
  };
  CHECK(error_of(plan) == ErrorKind::kConflict);
  part.force = true;
  carry_out(*t.store, plan(), LinkMode::kCopy, &t.stats, t.pool, t.progress);
  CHECK(read_text(t.source + "/a/1") == "one");
  CHECK(read_text(t.source + "/b/2") == "mine, not stored either");
}
