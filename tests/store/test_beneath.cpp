// Writes below a folder held open stay below it, with openat2 and with its replacement.
#include "store/worktree/beneath.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/path.h"
#include "fixture.h"
#include "store/worktree/checkout.h"

using namespace mlx;
using namespace mlx::store;

namespace {

// A worktree whose links lead to the folder `outside`, which must stay as it is.
struct Hostile {
  Hostile() {
    make_folders(root + "/real/deep");
    make_folders(outside);
    write_test_file(outside + "/precious", "precious");
    link(outside, "folder");
    link(outside, "real/folder");
    link(outside + "/precious", "file");
    link(outside + "/new", "dangling");
    link("real", "inside");
  }
  void link(const std::string& target, const std::string& path) {
    REQUIRE(::symlink(target.c_str(), (root + "/" + path).c_str()) == 0);
  }
  bool untouched() const {
    return list_folder(outside) == std::vector<std::string>{"precious"} &&
           read_text(outside + "/precious") == "precious";
  }

  TempFolder temp;
  std::string root = temp.path() + "/root", outside = temp.path() + "/outside";
};

}  // namespace

TEST_CASE("bug: nothing is written through a link below the folder") {
  const Hostile h;
  const Beneath below(h.root);
  const auto refused = [&](const auto& body) { return error_of(body) == ErrorKind::kConflict; };
  for (const std::string at : {"folder/x", "real/folder/x", "inside/x", "file", "dangling"}) {
    CAPTURE(at);
    CHECK(refused([&] { below.open(at, O_WRONLY | O_CREAT); }));
    CHECK(refused([&] { below.replace(at, "changed"); }));
  }
  for (const std::string at : {"folder/x", "real/folder/x", "inside/x"}) {
    CAPTURE(at);
    CHECK(refused([&] { below.symlink("/etc", at); }));
    CHECK(refused([&] { below.make_folders(at); }));
    CHECK(refused([&] { below.rename("real/deep", at); }));
    CHECK(refused([&] { below.remove(at); }));
    CHECK(below.hard_link(h.outside + "/precious", "real/linked") == 0);
    CHECK(below.remove("real/linked"));
  }
  CHECK(refused([&] { below.make_folders("folder"); }));
  CHECK(refused([&] { below.remove("folder/precious"); }));
  CHECK(refused([&] { below.remove_tree("folder/precious"); }));
  for (const std::string at : {"../outside/x", "real/../../outside/x", "/etc/x", "real//x"}) {
    CHECK(refused([&] { below.open(at, O_WRONLY | O_CREAT); }));
    CHECK(refused([&] { below.remove(at); }));
  }
  CHECK(h.untouched());
  // Removing a tree removes its links, but not their targets.
  below.remove_tree("real");
  CHECK_FALSE(path_exists(h.root + "/real"));
  CHECK(below.remove("folder"));
  CHECK(h.untouched());
}

TEST_CASE("what stands below the folder itself is read, written, replaced and removed") {
  TempFolder temp;
  const Beneath below(temp.path());
  CHECK_FALSE(below.read("a/b/c"));
  CHECK_FALSE(below.status("a"));
  below.make_folders("a/b");
  below.make_folders("a/b");
  below.replace("a/b/c", "one");
  CHECK(below.read("a/b/c") == "one");
  REQUIRE(::chmod((temp.path() + "/a/b/c").c_str(), 0640) == 0);
  below.replace("a/b/c", "two");
  CHECK((below.status("a/b/c")->st_mode & 07777) == 0640);
  CHECK_FALSE(below.status("a/b/c/d"));
  below.rename("a/b/c", "d");
  CHECK(below.read("d") == "two");
  CHECK(below.remove("d"));
  CHECK_FALSE(below.remove("d"));
  CHECK_FALSE(below.remove_folder("a"));
  CHECK(below.remove_folder("a/b"));
  CHECK(list_folder(temp.path()) == std::vector<std::string>{"a"});
  CHECK(error_of([&] { below.read("a"); }) == ErrorKind::kIo);
  CHECK(error_of([&] { Beneath(temp.path() + "/none"); }) == ErrorKind::kNotFound);
}

TEST_CASE("bug: without openat2 the way is walked folder by folder, and no link is followed") {
  const Hostile h;
  const Fd root = open_file(h.root, O_PATH | O_DIRECTORY);
  const auto opened = [&](const std::string& path) {
    const Fd fd(walk_beneath(root.get(), path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    return fd ? 0 : errno;
  };
  CHECK(opened("real/deep/x") == 0);
  CHECK(opened("new") == 0);
  for (const std::string at : {"folder/x", "real/folder/x", "inside/x", "file", "dangling"}) {
    CAPTURE(at);
    CHECK(opened(at) == ELOOP);
  }
  CHECK(opened("real/none/x") == ENOENT);
  CHECK(opened("new/x") == ENOTDIR);
  CHECK(h.untouched());
}

TEST_CASE("bug: a link that comes to stand above a dataset after the plan is not written through") {
  TestStore t;
  const std::string source = t.temp.path() + "/source";
  write_test_file(source + "/file", "from the version");
  const ManifestSummary summary = add_folder(*t.store, source, nullptr, nullptr, t.pool, t.progress);
  const std::string root = t.temp.path() + "/root", outside = t.temp.path() + "/outside";
  make_folders(root);
  make_folders(outside);
  CheckoutOptions how;
  how.root = root;
  const CheckoutPlan plan =
      plan_checkout(*t.store, t.store->entries(summary.id), root + "/data/x", how, nullptr, t.pool, t.progress);
  REQUIRE(::symlink(outside.c_str(), (root + "/data").c_str()) == 0);
  CHECK(error_of([&] { carry_out(*t.store, plan, LinkMode::kCopy, nullptr, t.pool, t.progress); }) ==
        ErrorKind::kConflict);
  CHECK(list_folder(outside).empty());
}
