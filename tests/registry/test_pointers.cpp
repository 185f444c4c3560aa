// Pointer files: text, places, what is refused.
#include <doctest/doctest.h>

#include <unistd.h>

#include "base/fd.h"
#include "clone.h"
#include "fails_with.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

Pointer pointer(const std::string& artifact, ArtifactKind kind = ArtifactKind::kDataset) {
  return {.artifact = artifact, .kind = kind, .digest = Digest::of(artifact), .files = 4, .size = 30878645};
}

}  // namespace

TEST_CASE("a pointer is five sorted lines and reads back") {
  const std::string text = encode_pointer(pointer("data/fashion"));
  CHECK(text == "artifact data/fashion\ndigest " + Digest::of("data/fashion").text() +
                    "\nfiles 4\nkind dataset\nsize 30878645\n");
  for (const std::string name : {"clf", "data/ünï", "a b", "a%41", "models/x y/z"}) {
    CHECK(decode_pointer(encode_pointer(pointer(name, ArtifactKind::kModel)), "f") ==
          pointer(name, ArtifactKind::kModel));
  }
  CHECK(encode_pointer(pointer("100%")).starts_with("artifact 100%25\n"));
  CHECK(encode_pointer(pointer(" x")).starts_with("artifact %20x\n"));
  CHECK(encode_pointer(pointer("\xff")).starts_with("artifact %FF\n"));
}

TEST_CASE("a text that is not exactly a pointer is refused with file and line") {
  const std::string good = encode_pointer(pointer("data/a"));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& words) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return fails_with(ErrorKind::kCorrupt, words, [&] { decode_pointer(text, "data/a.mlx"); });
  };
  CHECK(refused("files 4", "files 04", "data/a.mlx:3: ") == "");
  CHECK(refused("files 4", "files -4", "data/a.mlx:3: ") == "");
  CHECK(refused("files 4", "files 99999999999999999999", "data/a.mlx:3: ") == "");
  CHECK(refused("files 4\n", "", "data/a.mlx:3: expected 'files") == "");
  CHECK(refused("kind dataset", "kind data", "data/a.mlx:4: ") == "");
  CHECK(refused("sha256:", "", "data/a.mlx:2: ") == "");
  CHECK(refused("sha256:", "sha1:", "data/a.mlx:2: ") == "");
  CHECK(refused("data/a\n", "data/../../etc\n", "data/a.mlx:1: ") == "");
  CHECK(refused("data/a\n", "data/.git/hooks\n", ".git") == "");
  CHECK(refused("data/a\n", "data/%61\n", "escaped") == "");
  CHECK(refused("size 30878645\n", "size 30878645\nsize 1\n", "data/a.mlx:6: ") == "");
  CHECK(refused("size 30878645\n", "size 30878645", "data/a.mlx:5: ") == "");
  CHECK(fails_with(ErrorKind::kConflict, "unfinished git merge",
                   [&] { decode_pointer("<<<<<<< HEAD\n" + good, "data/a.mlx"); }) == "");
  CHECK(refused("artifact", "#mlx-pointer 2\nartifact", "later format") == "");
  CHECK(fails_with(ErrorKind::kCorrupt, "f:1: ", [] { decode_pointer("", "f"); }) == "");
}

TEST_CASE("pointers are written once, beside the data or below models") {
  Clone c;
  const Pointer data = pointer("data/fashion"), model = pointer("clf", ArtifactKind::kModel);
  CHECK(write_pointer(c.repo(), data));
  CHECK_FALSE(write_pointer(c.repo(), data));
  CHECK(write_pointer(c.repo(), model));
  CHECK(path_exists(c.path("data/fashion.mlx")));
  CHECK(path_exists(c.path("models/clf.mlx")));
  CHECK(read_pointer(c.repo(), "data/fashion") == data);
  CHECK(read_pointer(c.repo(), "clf") == model);
  CHECK_FALSE(read_pointer(c.repo(), "models/clf"));
  CHECK_FALSE(read_pointer(c.repo(), "nothing"));
  CHECK(fails_with(ErrorKind::kConflict, "models/clf.mlx", [&] { write_pointer(c.repo(), pointer("models/clf")); }) ==
        "");

  // Not looked at: what belongs to git, mlx and the artifact itself.
  make_folders(c.path("data/fashion"));
  write_file_atomically(c.path("data/fashion/stray.mlx"), "nonsense");
  make_folders(c.path(".git"));
  write_file_atomically(c.path(".git/stray.mlx"), "nonsense");
  CHECK(all_pointers(c.repo()) == std::vector<Pointer>{model, data});

  write_file_atomically(c.path("data/moved.mlx"), read_text(c.path("data/fashion.mlx")));
  CHECK(fails_with(ErrorKind::kCorrupt, "is at data/fashion.mlx", [&] { all_pointers(c.repo()); }) == "");
}

TEST_CASE("a folder is ignored once, and characters of git patterns are escaped") {
  Clone c;
  make_folders(c.path("data"));
  write_file_atomically(c.path("data/.gitignore"), "*.tmp");
  ignore_in_git(c.repo(), "data/fashion");
  ignore_in_git(c.repo(), "data/fashion");
  ignore_in_git(c.repo(), "data/a[1]*");
  CHECK(read_text(c.path("data/.gitignore")) == "*.tmp\n/fashion\n/a\\[1]\\*\n");
}

TEST_CASE("bug: pointers and what git ignores were written through links that git may track") {
  Clone c;
  const std::string outside = join_path(c.folder.path(), "outside");
  make_folders(outside);
  write_file_atomically(outside + "/file", "precious");
  const auto link = [&](const std::string& target, const std::string& path) {
    make_folders(parent_path(c.path(path)));
    REQUIRE(::symlink(target.c_str(), c.path(path).c_str()) == 0);
  };
  const auto refused = [&](const auto& body) { return fails_with(ErrorKind::kConflict, "is a symbolic link", body); };
  link(outside, "models");
  link(outside, "up");
  link(outside + "/file", "data/.gitignore");
  link(outside + "/file", "data/linked.mlx");
  CHECK(refused([&] { write_pointer(c.repo(), pointer("clf", ArtifactKind::kModel)); }) == "");
  CHECK(refused([&] { write_pointer(c.repo(), pointer("up/x")); }) == "");
  CHECK(refused([&] { remove_pointer(c.repo(), pointer("up/x")); }) == "");
  CHECK(refused([&] { write_pointer(c.repo(), pointer("data/linked")); }) == "");
  CHECK(refused([&] { ignore_in_git(c.repo(), "data/x"); }) == "");
  CHECK(refused([&] { unignore_in_git(c.repo(), "data/x"); }) == "");
  CHECK(refused([&] { ignore_in_git(c.repo(), "up/x"); }) == "");
  CHECK(list_folder(outside) == std::vector<std::string>{"file"});
  CHECK(read_text(outside + "/file") == "precious");
}

TEST_CASE("bug: a file of a folder that is not added yet was taken for a damaged pointer for its first word") {
  Clone c;
  make_folders(c.path("raw"));
  for (const char* text : {"artifact nothing", "artifact of the scanner\nwidth 3\n", "artifact raw/notes2\n"}) {
    write_file_atomically(c.path("raw/notes.mlx"), text);
    CHECK(all_pointers(c.repo()).empty());
    CHECK_FALSE(read_pointer(c.repo(), "raw/notes"));
  }
  // One that names its place is damaged, and one that was moved says where it belongs.
  write_file_atomically(c.path("raw/notes.mlx"), "artifact raw/notes\nwidth 3\n");
  CHECK(fails_with(ErrorKind::kCorrupt, "raw/notes.mlx:2", [&] { all_pointers(c.repo()); }) == "");
  CHECK(write_pointer(c.repo(), pointer("data/set")));
  write_file_atomically(c.path("raw/notes.mlx"), read_text(c.path("data/set.mlx")));
  CHECK(fails_with(ErrorKind::kCorrupt, "which is at data/set.mlx", [&] { all_pointers(c.repo()); }) == "");
}

TEST_CASE("bug: other programs' *.mlx files stopped every command") {
  Clone c;
  const auto put = [&](const std::string& path, const std::string& text) {
    make_folders(parent_path(c.path(path)));
    write_file_atomically(c.path(path), text);
  };
  CHECK(write_pointer(c.repo(), pointer("data/set")));
  CHECK(write_pointer(c.repo(), pointer("data/live.mlx")));
  put("scripts/plot.mlx", "PK\003\004");
  put("large.mlx", std::string(100'000, 'x'));
  put("raw/empty.mlx", "");
  put("raw/zeros.mlx", std::string(10, '\0'));
  put("scripts.mlx", "PK\003\004");  // and what stands in the folder beside it is looked at
  CHECK(write_pointer(c.repo(), pointer("scripts/inner")));
  put("data/set/inside.mlx", "artifact that is data");
  put("data/live.mlx", "artifact that is data");
  REQUIRE(::symlink("/dev/zero", c.path("endless.mlx").c_str()) == 0);
  CHECK(all_pointers(c.repo()) ==
        std::vector<Pointer>{pointer("data/live.mlx"), pointer("data/set"), pointer("scripts/inner")});
  CHECK_FALSE(read_pointer(c.repo(), "scripts/plot"));
  // What is a pointer, or was one, is told from them.
  for (const std::string& damaged :
       {std::string(), std::string("arti"), std::string(10, '\0'), std::string("artifact data/se"),
        std::string("artifact data/set\ndi"), std::string("artifact x\ndigest ")}) {
    put("data/set.mlx", damaged);
    CHECK(fails_with(ErrorKind::kCorrupt, "data/set.mlx:", [&] { all_pointers(c.repo()); }) == "");
    CHECK(readable_pointers(c.repo()).size() == 2);
  }
  put("data/set.mlx", "garbage");
  put("data/set/inside.mlx", "data");
  CHECK(all_pointers(c.repo()).size() == 2);
  make(c.repo(), "data/set", "text", ArtifactKind::kDataset);
  CHECK(fails_with(ErrorKind::kCorrupt, "data/set.mlx:1", [&] { all_pointers(c.repo()); }) == "");
}
