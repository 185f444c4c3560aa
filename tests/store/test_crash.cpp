// Every call of the store to the disk is made to fail, and to be the last one. Nothing committed may be lost, and the
// store must then open, verify and accept the same work again.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "../stride.h"
#include "fault_disk.h"
#include "fixture.h"
#include "store/journal.h"

using namespace mlx;
using namespace mlx::store;

namespace {

const StoreOptions kSmallPacks{300'000};

Digest operation_id(int step) {
  return Digest::of("operation " + std::to_string(step));
}
Bytes content_of(int step) {
  return random_bytes(700'000, static_cast<std::uint64_t>(step));
}

// The work of a command: content, its manifest, then the operation that names it.
void work(const std::string& folder, Disk& disk, Pool& pool, int step, Digest* manifest) {
  Store store(folder, disk, pool, kSmallPacks);
  auto batch = store.begin();
  Bytes content = content_of(step);
  std::vector<Entry> entries;
  entries.push_back({"large", kModeFile, content.size(), batch->add_blob(content)});
  std::string text = "small " + std::to_string(step);
  entries.push_back({"small", kModeFile, text.size(), batch->add_blob(as_bytes(text))});
  *manifest = batch->add_manifest(entries).id;
  batch->commit();
  Journal(folder + "/journal", disk).append(as_bytes("operation " + std::to_string(step)));
}

std::set<Digest> journal_ids(const std::string& folder, Disk& disk) {
  std::set<Digest> ids;
  Journal(folder + "/journal", disk).visit([&](const Digest& id, ByteView) { ids.insert(id); });
  return ids;
}

void expect_whole(const std::string& folder, Pool& pool, const Digest& manifest, int step) {
  auto disk = real_disk();
  NoProgress progress;
  Store store(folder, *disk, pool);
  auto large = store.find(manifest, "large");
  REQUIRE(large.has_value());
  CHECK(store.read_blob(large->content) == content_of(step));
  CHECK(journal_ids(folder, *disk).contains(operation_id(step)));
}

std::vector<std::string> leftovers(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : list_folder(folder + "/packs")) {
    if (name.starts_with("tmp-")) names.push_back(name);
  }
  return names;
}

// The work's number of disk calls where nothing fails.
int count_calls(Pool& pool) {
  TempFolder temp;
  FaultDisk disk(FaultDisk::Fault::kFail, 0);
  Store::create(temp.path(), disk);
  int before = disk.calls();
  Digest manifest;
  work(temp.path(), disk, pool, 2, &manifest);
  return disk.calls() - before;
}

void run_with(FaultDisk::Fault fault) {
  Pool pool(1);
  int calls = count_calls(pool);
  REQUIRE(calls > 15);
  for (int at = 1; at <= calls + 1; at += mlx::test::stride()) {
    CAPTURE(at);
    TempFolder temp;
    const std::string& folder = temp.path();
    Digest first, second;
    FaultDisk sound(FaultDisk::Fault::kFail, 0);
    Store::create(folder, sound);
    work(folder, sound, pool, 1, &first);

    FaultDisk disk(fault, at);
    bool finished = false;
    try {
      work(folder, disk, pool, 2, &second);
      finished = true;
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kIo);
      CHECK(error.message.find(folder) != std::string::npos);
    } catch (const Killed&) {
    }
    // Removing temporary files and merging indexes may fail without harm; everything else is an error.
    if (at > calls) CHECK(finished);
    if (fault == FaultDisk::Fault::kFail && !disk.failed_in_remove()) CHECK(leftovers(folder).empty());

    expect_whole(folder, pool, first, 1);
    if (finished) expect_whole(folder, pool, second, 2);
    NoProgress progress;
    {
      Store store(folder, sound, pool);
      FsckReport report = store.fsck(progress);
      CHECK(report.problems.empty());
      // A manifest that can be found has all its parts.
      for (const Digest& id : {first, second}) {
        if (id.is_zero() || !store.has(ObjectKind::kManifest, id)) continue;
        store.visit_reachable_manifest(id,
                                       [&](ObjectKind kind, const Digest& object) { CHECK(store.has(kind, object)); });
      }
    }
    work(folder, sound, pool, 2, &second);
    expect_whole(folder, pool, second, 2);
  }
}

}  // namespace

TEST_CASE("a call that fails anywhere leaves the store as before, without temporary files" *
          doctest::test_suite("long")) {
  run_with(FaultDisk::Fault::kFail);
}
TEST_CASE("EIO at any call leaves the store as before" * doctest::test_suite("long")) {
  run_with(FaultDisk::Fault::kBroken);
}
TEST_CASE("a disk that stays full leaves the store as before" * doctest::test_suite("long")) {
  run_with(FaultDisk::Fault::kFailAfter);
}
TEST_CASE("a process that dies before any call loses nothing committed" * doctest::test_suite("long")) {
  run_with(FaultDisk::Fault::kDie);
}
TEST_CASE("a write that is torn loses nothing committed" * doctest::test_suite("long")) {
  run_with(FaultDisk::Fault::kTear);
}

TEST_CASE("SIGKILL at several calls: committed work stays, and the next writer clears up" *
          doctest::test_suite("long")) {
  for (int at : {1, 3, 5, 8, 12, 14, 16, 18}) {
    CAPTURE(at);
    TempFolder temp;
    const std::string& folder = temp.path();
    Digest first, second;
    {
      FaultDisk sound(FaultDisk::Fault::kFail, 0);
      Pool pool(1);
      Store::create(folder, sound);
      work(folder, sound, pool, 1, &first);
    }
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto disk = real_disk(at);
      Pool pool(1);
      Digest ignored;
      work(folder, *disk, pool, 2, &ignored);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    Pool pool(1);
    expect_whole(folder, pool, first, 1);
    FaultDisk sound(FaultDisk::Fault::kFail, 0);
    work(folder, sound, pool, 2, &second);
    CHECK(leftovers(folder).empty());
    expect_whole(folder, pool, second, 2);
    NoProgress progress;
    CHECK(Store(folder, sound, pool).fsck(progress).problems.empty());
  }
}
