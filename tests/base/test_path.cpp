// Paths by text, and folders that are made, listed and removed.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/foreign_files.h"
#include "base/path.h"
#include "throws.h"

using namespace mlx;

TEST_CASE("paths are joined and taken apart by text") {
  CHECK_EQ(join_path("a", "b"), "a/b");
  CHECK_EQ(join_path("a/", "b/c"), "a/b/c");
  CHECK_EQ(join_path("a", "/b"), "/b");
  CHECK_EQ(join_path("", "b"), "b");
  CHECK_EQ(join_path("a", ""), "a");
  CHECK_EQ(join_path("/", "b"), "/b");
  CHECK_EQ(parent_path("a/b/c"), "a/b");
  CHECK_EQ(parent_path("a/b//"), "a");
  CHECK_EQ(parent_path("a"), ".");
  CHECK_EQ(parent_path("/a"), "/");
  CHECK_EQ(parent_path("/"), "/");
  CHECK_EQ(base_name("a/b"), "b");
  CHECK_EQ(base_name("a/b/"), "b");
  CHECK_EQ(base_name("b"), "b");
  CHECK_EQ(base_name("/"), "/");
}

TEST_CASE("absolute paths have no dots left") {
  CHECK_EQ(absolute_path("/a/./b//c/"), "/a/b/c");
  CHECK_EQ(absolute_path("/a/b/../c"), "/a/c");
  CHECK_EQ(absolute_path("/.."), "/");
  CHECK_EQ(absolute_path("/../../x"), "/x");
  CHECK_EQ(absolute_path("/"), "/");
  CHECK_EQ(absolute_path("x/.."), absolute_path("."));
  CHECK_EQ(absolute_path("x"), join_path(absolute_path("."), "x"));
}

TEST_CASE("what is inside a folder") {
  CHECK(relative_inside("/a/b/c", "/a") == "b/c");
  CHECK(relative_inside("/a/b", "/a/") == "b");
  CHECK(relative_inside("/a", "/a") == "");
  CHECK(relative_inside("/a", "/") == "a");
  CHECK(relative_inside("/ab", "/a") == std::nullopt);
  CHECK(relative_inside("/", "/a") == std::nullopt);
}

TEST_CASE("stored names cannot leave their folder") {
  for (const char* good : {"a", "a/b", "...", "a/..b", ".mlx"}) CHECK_MESSAGE(is_safe_relative(good), good);
  for (const char* bad : {"", ".", "..", "/a", "a/", "a//b", "a/./b", "a/../b", "../a", "a/.."}) {
    CHECK_MESSAGE(!is_safe_relative(bad), bad);
  }
  CHECK_FALSE(is_safe_relative(std::string_view("a\0b", 3)));
}

TEST_CASE("git's folder and ours are known in any case of letters, and at any depth") {
  for (const char* kept : {".git", ".mlx", ".GIT", ".Mlx", "a/.git/hooks/pre-push", ".git/config", "a/b/.miX/../.mLx"})
    CHECK_MESSAGE(has_private_part(kept), kept);
  for (const char* free : {"", "git", ".gitignore", ".mlxignore", "a.git", "a/.gi/t", "mlx/x", "data/x.mlx"})
    CHECK_MESSAGE(!has_private_part(free), free);
}

TEST_CASE("a listing tells folders from files and from links to folders") {
  const TempFolder temp;
  make_folders(join_path(temp.path(), "folder"));
  write_file_atomically(join_path(temp.path(), "file"), std::string_view("x"));
  REQUIRE(::symlink("folder", join_path(temp.path(), "link").c_str()) == 0);
  std::vector<std::string> folders, others;
  for (const auto& [name, folder] : list_entries(temp.path())) {
    (folder ? folders : others).push_back(name);
    CHECK(folder == is_real_folder(join_path(temp.path(), name)));
  }
  CHECK(folders == std::vector<std::string>{"folder"});
  CHECK(others == std::vector<std::string>{"file", "link"});
  CHECK(error_of([&] { list_entries(join_path(temp.path(), "none")); }).kind == ErrorKind::kNotFound);
}

TEST_CASE("folders are made, listed by bytes and removed") {
  const TempFolder temp;
  const std::string deep = join_path(temp.path(), "a/b/c");
  make_folders(deep);
  make_folders(deep);
  CHECK(is_folder(deep));
  for (const char* name : {"b.txt", "B.txt", "a.txt"})
    write_file_atomically(join_path(deep, name), std::string_view("x"));
  CHECK(list_folder(deep) == std::vector<std::string>{"B.txt", "a.txt", "b.txt"});
  CHECK(error_of([&] { list_folder(join_path(deep, "none")); }).kind == ErrorKind::kNotFound);
  const Error error = error_of([&] { make_folders(join_path(deep, "a.txt/below")); });
  CHECK(error.kind == ErrorKind::kIo);
  CHECK(contains(error.message, "a.txt"));
  remove_tree(join_path(temp.path(), "a"));
  CHECK_FALSE(path_exists(join_path(temp.path(), "a")));
  remove_tree(join_path(temp.path(), "a"));  // missing is fine
}

TEST_CASE("removing a tree leaves what its links point to") {
  const TempFolder temp;
  const std::string outside = join_path(temp.path(), "outside"), tree = join_path(temp.path(), "tree");
  make_folders(outside);
  make_folders(tree);
  write_file_atomically(join_path(outside, "keep"), std::string_view("x"));
  REQUIRE(::symlink(outside.c_str(), join_path(tree, "link").c_str()) == 0);
  REQUIRE(::symlink(tree.c_str(), join_path(temp.path(), "to_tree").c_str()) == 0);
  remove_tree(join_path(temp.path(), "to_tree/"));  // the link, not the tree
  CHECK(is_folder(tree));
  CHECK_FALSE(path_exists(join_path(temp.path(), "to_tree")));
  remove_tree(tree);
  CHECK_FALSE(path_exists(tree));
  CHECK(path_exists(join_path(outside, "keep")));
}

TEST_CASE("folders without permissions are removed too") {
  const TempFolder temp;
  const std::string locked = join_path(temp.path(), "locked");
  make_folders(join_path(locked, "below"));
  write_file_atomically(join_path(locked, "file"), std::string_view("x"));
  REQUIRE(::chmod(locked.c_str(), 0) == 0);
  remove_tree(locked);
  CHECK_FALSE(path_exists(locked));
}

TEST_CASE("a temporary folder goes with its object") {
  std::string path;
  {
    const TempFolder temp;
    path = temp.path();
    CHECK(is_folder(path));
    write_file_atomically(join_path(path, "file"), std::string_view("x"));
  }
  CHECK_FALSE(path_exists(path));
}

TEST_CASE("bug: names that file systems of Windows take for .git and .mlx are private, too") {
  for (const char* name :
       {".git", ".GIT", ".mlx", ".Mlx", ".git.", ".git ", ".mlx. .", "git~1", "GIT~1", "mlx~1", "git~1."})
    CHECK(is_private_name(name));
  for (const char* name : {"git", "mlx", ".gitignore", ".git.x", ".mlxignore", "git~2", "x.git", "....", ""})
    CHECK_FALSE(is_private_name(name));
}

TEST_CASE("a folder is emptied by what was opened, links in it are not followed") {
  const TempFolder temp;
  const std::string folder = join_path(temp.path(), "folder"), other = join_path(temp.path(), "other");
  make_folders(join_path(folder, "a/b"));
  make_folders(other);
  write_file_atomically(join_path(other, "precious"), "");
  write_file_atomically(join_path(folder, "kept"), "");
  REQUIRE(::symlink(other.c_str(), join_path(folder, "a/link").c_str()) == 0);
  const Fd opened = open_file(folder, O_RDONLY | O_DIRECTORY);
  remove_content(opened.get(), folder, "kept");
  CHECK(list_folder(folder) == std::vector<std::string>{"kept"});
  remove_content(opened.get(), folder);
  CHECK(list_folder(folder).empty());
  CHECK(list_folder(other) == std::vector<std::string>{"precious"});
}
