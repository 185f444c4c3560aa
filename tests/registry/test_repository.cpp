// Opening, recording, merging; what a crash, another process, a full disk or another mlx leave behind.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/fd.h"
#include "base/json.h"
#include "clone.h"
#include "fails_with.h"
#include "registry/maintenance/check_metadata.h"
#include "registry/maintenance/rebuild.h"
#include "registry/settings/own_folder.h"
#include "registry/settings/settings.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/references.h"
#include "store/journal.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

// Refuses to write to files whose names hold `refused`.
class FailingDisk final : public UnsyncedDisk {
 public:
  std::string refused;
  bool after_writing = false;  // fail where the bytes are on the disk already

  void write(const Fd& fd, ByteView bytes, const std::string& path) override {
    if (!after_writing) check(path);
    UnsyncedDisk::write(fd, bytes, path);
    check(path);
  }

 private:
  void check(const std::string& path) const {
    if (!refused.empty() && path.find(refused) != std::string::npos) {
      fail(ErrorKind::kIo, "{}: cannot write: Read-only file system", path);
    }
  }
};

// Forks, runs `body` in the child, and returns its exit status: 0 unless it threw.
template <typename Body>
int in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
      ::_exit(0);
    } catch (const Error& error) {
      ::_exit(static_cast<int>(error.kind));
    } catch (...) {
      ::_exit(99);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("init makes a repository that git ignores, and a second one changes nothing") {
  TempFolder folder;
  const auto disk = store::real_disk();
  Pool pool(1);
  CHECK(Repository::init(folder.path(), *disk));
  CHECK(read_text(join_path(folder.path(), ".mlx/.gitignore")) == "*\n");
  CHECK(open_repository(folder.path(), *disk, pool).actor() == "");  // nobody has recorded anything yet
  const auto actor_of_signer = [&] {
    Repository repository = open_repository(folder.path(), *disk, pool);
    (void)repository.signer();
    return repository.actor();
  };
  const std::string actor = actor_of_signer();
  CHECK(actor.size() == 16);
  struct stat info {};
  for (const char* name : {".mlx/actor", ".mlx/signing_key"}) {
    REQUIRE(::stat(join_path(folder.path(), name).c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
  }
  CHECK_FALSE(Repository::init(folder.path(), *disk));
  CHECK(open_repository(folder.path(), *disk, pool).actor() == actor);
}

TEST_CASE("a repository is found from inside it, and the error says what to do outside of one") {
  Clone c;
  make_folders(c.path("a/b"));
  CHECK(open_repository(c.path("a/b"), *c.disk, c.pool).root() == c.root);
  CHECK(c.repo().inside("../x/", c.path("a")) == "x");
  CHECK(c.repo().inside(".", c.path("a")) == "a");
  CHECK(fails_with(ErrorKind::kUsage, "outside of the repository", [&] { c.repo().inside("../..", c.path("a")); }) ==
        "");

  TempFolder other;
  const auto open = [&] { (void)open_repository(other.path(), *c.disk, c.pool); };
  CHECK(fails_with(ErrorKind::kNotFound, "mlx init", open) == "");
  make_folders(join_path(other.path(), "data"));
  write_file_atomically(join_path(other.path(), "data/x.mlx"), "");
  CHECK(fails_with(ErrorKind::kNotFound, "mlx pull", open) == "");
}

TEST_CASE("each operation has the heads before it as parents") {
  Clone c;
  CHECK(c.repo().heads().empty());
  make(c.repo(), "clf", "one");
  make(c.repo(), "clf", "two");
  const std::vector<Operation> operations = c.repo().operations();
  REQUIRE(operations.size() == 2);
  CHECK(operations[0].parents.empty());
  CHECK(operations[1].parents == std::vector<Digest>{operations[0].id});
  CHECK(operations[1].actor == c.repo().actor());
  CHECK(c.repo().heads() == std::vector<Digest>{operations[1].id});
}

TEST_CASE("a body that can not be applied leaves no trace") {
  Clone c;
  make(c.repo(), "clf", "one");
  const std::string before = dump(c.repo());
  const std::string journal = read_text(c.path(".mlx/journal"));
  Json body;
  body["artifact"] = "clf";
  CHECK(fails_with(ErrorKind::kCorrupt, "alias", [&] { c.repo().record("alias.move", body); }) == "");
  CHECK(fails_with(ErrorKind::kCorrupt, "newer mlx", [&] { c.repo().record("from.the.future", body); }) == "");
  CHECK(dump(c.repo()) == before);
  CHECK(read_text(c.path(".mlx/journal")) == journal);
}

TEST_CASE("an operation in the journal that was never committed is applied by the next opening") {
  Clone c;
  make(c.repo(), "clf", "one");
  const store::ManifestSummary two = tree(c.repo(), "two");
  c.close();
  // The database as it was before the second operation, beside the journal that has it.
  const std::string before = read_text(c.path(".mlx/meta.db"));
  c.open();
  const NewVersion version{
      .artifact = "clf", .kind = ArtifactKind::kModel, .manifest = two, .message = "two", .run = {}, .parent = {}};
  create_version(c.repo(), version);
  const std::string after = dump(c.repo());
  c.close();
  write_file_atomically(c.path(".mlx/meta.db"), before);
  remove_tree(c.path(".mlx/meta.db-wal"));
  remove_tree(c.path(".mlx/meta.db-shm"));

  SUBCASE("by a reader") {
    c.open();
    CHECK(dump(c.repo()) == after);
  }
  SUBCASE("by a writer, whose operation comes after it") {
    c.open();
    CHECK_FALSE(create_version(c.repo(), version).made);
    CHECK(make(c.repo(), "clf", "three").number == 3);
  }
  SUBCASE("and meta.db may be gone altogether") {
    remove_tree(c.path(".mlx/meta.db"));
    c.open();
    CHECK(dump(c.repo()) == after);
  }
}

TEST_CASE("a journal that is gone or cut off is written again from the database") {
  Clone c;
  make(c.repo(), "clf", "one");
  make(c.repo(), "clf", "two");
  const std::string before = dump(c.repo());
  c.close();
  const std::string journal = read_text(c.path(".mlx/journal"));
  SUBCASE("gone") {
    remove_tree(c.path(".mlx/journal"));
  }
  SUBCASE("torn") {
    write_file_atomically(c.path(".mlx/journal"), journal.substr(0, journal.size() - 20));
  }
  SUBCASE("with the beginning of an operation behind it") {
    write_file_atomically(c.path(".mlx/journal"), journal + "MLXB");
  }
  c.open();
  CHECK(dump(c.repo()) == before);
  c.close();
  remove_tree(c.path(".mlx/meta.db"));
  c.open();
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("a disk that refuses the journal leaves everything as before") {
  Clone c;
  make(c.repo(), "clf", "one");
  const store::ManifestSummary two = tree(c.repo(), "two");
  const std::string before = dump(c.repo());
  FailingDisk disk;
  Repository repo = open_repository(c.root, disk, c.pool);
  disk.refused = "/journal";
  SUBCASE("before the write") {}
  SUBCASE("after the write") {
    disk.after_writing = true;
  }
  const NewVersion version{
      .artifact = "clf", .kind = ArtifactKind::kModel, .manifest = two, .message = "two", .run = {}, .parent = {}};
  CHECK(fails_with(ErrorKind::kIo, "Read-only", [&] { create_version(repo, version); }) == "");
  CHECK(dump(repo) == before);
  CHECK(dump(c.repo()) == before);
  disk.refused.clear();
  CHECK(create_version(repo, version).version.number == 2);
}

TEST_CASE("a folder that may not be written to is an I/O error") {
  Clone c;
  make(c.repo(), "clf", "one");
  const std::string before = dump(c.repo());
  const Version v = resolve(c.repo(), "clf");
  c.close();
  if (::geteuid() != 0) ::chmod(c.path(".mlx").c_str(), 0555);
  const int status = in_child([&] {
    // Root may write anywhere: go on as nobody, who owns nothing here.
    if (::geteuid() == 0 &&
        (::chmod(c.folder.path().c_str(), 0755) != 0 || ::setegid(65534) != 0 || ::seteuid(65534) != 0))
      ::_exit(98);
    Repository repo = open_repository(c.root, *c.disk, c.pool);
    move_alias(repo, "best", v);
  });
  ::chmod(c.path(".mlx").c_str(), 0755);
  CHECK(status == static_cast<int>(ErrorKind::kIo));
  c.open();
  CHECK(dump(c.repo()) == before);
}

TEST_CASE("a schema of a newer mlx is refused") {
  Clone c;
  c.repo().db().run("PRAGMA user_version = 1000");
  c.close();
  CHECK(fails_with(ErrorKind::kConflict, "1000", [&] { c.open(); }) == "");
  NoProgress quiet;
  CHECK(fails_with(ErrorKind::kConflict, "1000", [&] { rebuild_database(c.root, *c.disk, c.pool, quiet); }) == "");
}

TEST_CASE("two openings of one folder see each other's operations") {
  Clone c;
  Repository other = open_repository(c.root, *c.disk, c.pool);
  const store::ManifestSummary trees[] = {tree(c.repo(), "0"), tree(c.repo(), "1"), tree(c.repo(), "2"),
                                          tree(c.repo(), "3")};
  for (int i = 0; i < 4; ++i) {
    Repository& repo = i % 2 == 0 ? c.repo() : other;
    CHECK(create_version(repo, {.artifact = "clf",
                                .kind = ArtifactKind::kModel,
                                .manifest = trees[i],
                                .message = {},
                                .run = {},
                                .parent = {}})
              .version.number == i + 1);
  }
  CHECK(dump(c.repo()) == dump(other));
  CHECK(c.repo().heads().size() == 1);
}

TEST_CASE("bug: fsck took what others committed meanwhile for damage") {
  Clone clone;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    Pool pool(1);
    Repository other = open_repository(clone.root, *clone.disk, pool);
    other.db().run("PRAGMA synchronous = OFF");
    for (int i = 0; !stop; ++i) make(other, "clf", std::to_string(i));
  });
  std::vector<std::string> problems;
  for (int i = 0; i < 20 && problems.empty(); ++i) problems = check_metadata(clone.repo()).problems;
  stop = true;
  writer.join();
  CHECK(problems == std::vector<std::string>{});
}

TEST_CASE("concurrent threads and processes get distinct numbers") {
  constexpr int kWriters = 4, kEach = 8;
  Clone c;
  std::vector<store::ManifestSummary> trees;
  for (int i = 0; i < kWriters * kEach; ++i) trees.push_back(tree(c.repo(), "tree " + std::to_string(i)));
  const std::string root = c.root;
  c.close();
  const auto write = [&](int writer) {
    Pool pool(1);
    UnsyncedDisk disk;
    Repository repo = open_repository(root, disk, pool);
    repo.db().run("PRAGMA synchronous = OFF");
    for (int i = 0; i < kEach; ++i) {
      create_version(repo, {.artifact = "clf",
                            .kind = ArtifactKind::kModel,
                            .manifest = trees[static_cast<std::size_t>(writer * kEach + i)],
                            .message = {},
                            .run = {},
                            .parent = {}});
    }
  };
  SUBCASE("threads") {
    std::vector<std::thread> threads;
    for (int w = 0; w < kWriters; ++w) threads.emplace_back(write, w);
    for (std::thread& thread : threads) thread.join();
  }
  SUBCASE("processes") {
    std::vector<pid_t> children;
    for (int w = 0; w < kWriters; ++w) {
      const pid_t child = ::fork();
      if (child == 0) {
        try {
          write(w);
          ::_exit(0);
        } catch (...) {
          ::_exit(1);
        }
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int result = -1;
      ::waitpid(child, &result, 0);
      CHECK(result == 0);
    }
  }
  c.open();
  const std::vector<Version> all = versions(c.repo(), "clf");
  REQUIRE(all.size() == kWriters * kEach);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].number == static_cast<int>(i) + 1);
  CHECK(c.repo().heads().size() == 1);
}

TEST_CASE("a writer killed at any step loses nothing committed, and the next one continues") {
  for (int step = 1; step <= 12; ++step) {
    INFO("killed before disk call ", step);
    Clone c;
    make(c.repo(), "clf", "one");
    const store::ManifestSummary two = tree(c.repo(), "two");
    c.close();
    const NewVersion version{
        .artifact = "clf", .kind = ArtifactKind::kModel, .manifest = two, .message = {}, .run = {}, .parent = {}};
    in_child([&] {
      const auto disk = store::real_disk(step);
      Repository repo = open_repository(c.root, *disk, c.pool);
      create_version(repo, version);
    });
    c.open();
    CHECK(resolve(c.repo(), "clf@v1").bytes == 3);
    CHECK(create_version(c.repo(), version).version.number == 2);
    CHECK(c.repo().heads().size() == 1);
  }
}

TEST_CASE("bug: another user's repository in a folder above was used as one's own") {
  if (::geteuid() != 0) return;  // nobody else can give a folder away
  constexpr uid_t kStranger = 12345;
  Clone c;
  c.close();
  Environment mine;
  mine.home = c.home;
  std::string safe, caller;
  mine.variable = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "MLX_SAFE_DIRECTORY") return safe;
    if (name == "SUDO_UID") return caller;
    return std::nullopt;
  };
  const auto add = [&] {
    Repository repository = open_repository(c.root, *c.disk, c.pool, mine);
    const auto batch = repository.store().begin();
    batch->add_blob(as_bytes("a secret"));
    batch->commit();
  };
  const auto record = [&] {
    Repository repository = open_repository(c.root, *c.disk, c.pool, mine);
    repository.record("actor.forget", {{"actor", std::string(16, '0')}});
  };
  const auto packs = [&] { return list_folder(c.path(".mlx/packs")); };
  const std::vector<std::string> before = packs();
  write_file_atomically(c.path("mlx.toml"), "");
  for (const char* theirs : {".mlx", "mlx.toml"}) {
    CAPTURE(theirs);
    REQUIRE(::chown(c.path(theirs).c_str(), kStranger, kStranger) == 0);
    CHECK(fails_with(ErrorKind::kIo, "belongs to another user (uid 12345)", add) == "");
    CHECK(fails_with(ErrorKind::kIo, "mlx config --global safe.directory " + c.root, record) == "");
    CHECK(fails_with(ErrorKind::kIo, "another user", [&] { require_no_stranger(c.root, mine); }) == "");
    CHECK(fails_with(ErrorKind::kIo, "another user", [&] {
            write_setting({mine, c.root}, SettingOrigin::kClone, "core.threads", "1", false);
          }) == "");
    CHECK(packs() == before);
    // What only reads goes on.
    CHECK(open_repository(c.root, *c.disk, c.pool, mine).operations().empty());
    REQUIRE(::chown(c.path(theirs).c_str(), 0, 0) == 0);
  }
  REQUIRE(::chown(c.path(".mlx").c_str(), kStranger, kStranger) == 0);
  for (const std::string& value : {std::string("/elsewhere"), parent_path(c.root), c.root + "/x"}) {
    safe = value;
    CHECK(fails_with(ErrorKind::kIo, "another user", add) == "");
  }
  caller = "12346";
  CHECK(fails_with(ErrorKind::kIo, "another user", add) == "");
  safe = "/elsewhere:" + c.root;
  add();
  CHECK(packs() != before);
  safe = "*";
  add();
  safe.clear(), caller = "12345";  // sudo: the files of who called it
  add();
}
