// The user's repository as git itself makes it: unborn, dirty, detached, linked worktrees, hooks elsewhere, bare,
// foreign.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/fd.h"
#include "base/git.h"
#include "base/path.h"
#include "base/subprocess.h"
#include "throws.h"

using namespace mlx;

namespace {

// Neither git nor libgit2 (which reads HOME when it starts) sees the settings of whoever runs the tests, nor of a hook
// that they run in.
void isolate() {
  ::setenv("HOME", "/nonexistent", 1);
  ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
  for (const char* name : {"XDG_CONFIG_HOME", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}) ::unsetenv(name);
}

// A repository in a temporary folder, worked on with the real git.
class Repo {
 public:
  Repo() : root(join_path(temp_.path(), "repo")) {
    isolate();
    make_folders(root);
    git({"init", "-q", "-b", "main"});
  }

  std::string git(std::vector<std::string> arguments) const {
    std::vector<std::string> argv = {
        "git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const ProcessResult result = run_process(argv, {}, root);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return result.out;
  }
  void write(const std::string& path, std::string_view text) const {
    make_folders(parent_path(join_path(root, path)));
    write_file_atomically(join_path(root, path), text);
  }
  void commit(const std::string& path, std::string_view text) const {
    write(path, text);
    git({"add", path});
    git({"commit", "-q", "-m", path});
  }
  GitState state(bool with_diff = false) const {
    const std::optional<GitState> found = read_git_state(root, with_diff);
    REQUIRE(found.has_value());
    return *found;
  }
  std::string beside(const char* name) const { return join_path(temp_.path(), name); }

 private:
  TempFolder temp_;

 public:
  const std::string root;
};

}  // namespace

TEST_CASE("the root is found from below, and nothing outside") {
  const Repo repo;
  make_folders(join_path(repo.root, "a/b"));
  CHECK(find_git_root(join_path(repo.root, "a/b")) == repo.root);
  CHECK(find_git_root(repo.root + "/") == repo.root);
  CHECK(find_git_root(join_path(repo.root, "not/there/yet")) == repo.root);
  CHECK(find_git_root(parent_path(repo.root)) == std::nullopt);
  make_folders(join_path(repo.root, "a/.git"));  // empty: no repository
  CHECK(find_git_root(join_path(repo.root, "a/b")) == repo.root);
  REQUIRE(::symlink(join_path(repo.root, "a/b").c_str(), repo.beside("link").c_str()) == 0);
  CHECK(find_git_root(repo.beside("link")) == repo.root);
}

TEST_CASE("a repository without a commit") {
  const Repo repo;
  GitState state = repo.state();
  CHECK_EQ(state.root, repo.root);
  CHECK_EQ(state.head, "");
  CHECK_EQ(state.branch, "");
  CHECK_FALSE(state.dirty);
  repo.write("untracked", "x");
  CHECK_FALSE(repo.state().dirty);
  repo.git({"add", "untracked"});
  CHECK(repo.state().dirty);
  CHECK(git_blobs_on_branches(repo.root, "untracked").empty());
  CHECK(git_files_with_suffix(repo.root, "").empty());
}

TEST_CASE("branch, commit and changes of tracked files") {
  const Repo repo;
  repo.commit("file", "one\n");
  GitState state = repo.state(true);
  CHECK_EQ(state.branch, "main");
  CHECK_EQ(state.head + "\n", repo.git({"rev-parse", "HEAD"}));
  CHECK_FALSE(state.dirty);
  CHECK_EQ(state.diff, "");

  repo.write("new", "untracked\n");
  CHECK_FALSE(repo.state().dirty);
  repo.write("file", "two\n");
  state = repo.state(true);
  CHECK(state.dirty);
  CHECK_MESSAGE(contains(state.diff, "-one\n+two\n"), state.diff);
  CHECK_EQ(repo.state(false).diff, "");
  repo.git({"add", "file"});  // staged counts as well
  CHECK(repo.state().dirty);
  repo.git({"commit", "-q", "-m", "two"});
  CHECK_FALSE(repo.state().dirty);
  repo.git({"checkout", "-q", "--detach"});
  CHECK_EQ(repo.state().branch, "");
  CHECK_EQ(repo.state().head.size(), 40);
}

TEST_CASE("the diff that is kept is the one git applies") {
  const Repo repo;
  repo.commit("file", "a\nb\nc\n");
  repo.write("file", "a\nB\nc");
  const std::string diff = repo.state(true).diff;
  repo.git({"checkout", "-q", "file"});
  repo.write("../change.patch", diff);
  repo.git({"apply", "../change.patch"});
  CHECK_EQ(read_text(join_path(repo.root, "file")), "a\nB\nc");
}

TEST_CASE("a large diff is cut") {
  const Repo repo;
  repo.commit("file", "small\n");
  std::string large;
  for (int i = 0; i < 60'000; ++i) large += "line " + std::to_string(i) + "\n";
  repo.write("file", large);
  CHECK_EQ(repo.state(true).diff.size(), 256 * 1024);
}

TEST_CASE("files at the tips of all branches, each content once") {
  const Repo repo;
  repo.commit("data/a.mlx", "main a");
  repo.commit("other.txt", "x");
  repo.git({"checkout", "-q", "-b", "side"});
  repo.commit("data/a.mlx", "side a");
  repo.commit("models/b.mlx", "side b");
  repo.git({"checkout", "-q", "-b", "same", "main"});
  repo.git({"update-ref", "refs/remotes/origin/old", "side~1"});
  repo.git({"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone"});

  std::vector<std::string> blobs = git_blobs_on_branches(repo.root, "data/a.mlx");
  std::sort(blobs.begin(), blobs.end());
  CHECK(blobs == std::vector<std::string>{"main a", "side a"});
  CHECK(git_blobs_on_branches(repo.root, "data").empty());
  CHECK(git_blobs_on_branches(repo.root, "none.mlx").empty());
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"data/a.mlx", "main a"}, {"data/a.mlx", "side a"}, {"models/b.mlx", "side b"}};
  CHECK(git_files_with_suffix(repo.root, ".mlx") == expected);

  repo.git({"checkout", "-q", "--detach"});
  repo.commit("data/a.mlx", "detached a");
  CHECK_EQ(git_blobs_on_branches(repo.root, "data/a.mlx").size(), 3);
}

TEST_CASE("linked worktrees have a branch of their own and the hooks of all") {
  const Repo repo;
  repo.commit("file", "x");
  const std::string linked = repo.beside("linked");
  repo.git({"worktree", "add", "-q", "-b", "side", linked});
  const std::optional<GitState> state = read_git_state(linked, false);
  REQUIRE(state.has_value());
  CHECK_EQ(state->root, linked);
  CHECK_EQ(state->branch, "side");
  CHECK_EQ(git_hooks_folder(repo.root), join_path(repo.root, ".git/hooks"));
  CHECK_EQ(git_hooks_folder(linked), join_path(repo.root, ".git/hooks"));
}

TEST_CASE("core.hooksPath is respected") {
  const Repo repo;
  repo.git({"config", "core.hooksPath", "tools/hooks"});
  CHECK_EQ(git_hooks_folder(repo.root), join_path(repo.root, "tools/hooks"));
  repo.git({"config", "core.hooksPath", "/abs/hooks"});
  CHECK_EQ(git_hooks_folder(repo.root), "/abs/hooks");
}

TEST_CASE("bare repositories and plain folders are none") {
  const Repo repo;
  const TempFolder plain;
  CHECK(read_git_state(plain.path(), true) == std::nullopt);
  CHECK(error_of([&] { git_hooks_folder(plain.path()); }).kind == ErrorKind::kNotFound);
  CHECK(error_of([&] { git_blobs_on_branches(plain.path(), "x"); }).kind == ErrorKind::kNotFound);
  repo.git({"config", "core.bare", "true"});
  CHECK(read_git_state(repo.root, true) == std::nullopt);
}

TEST_CASE("a damaged repository is an error, not a crash") {
  const Repo repo;
  repo.commit("file", "x");
  remove_tree(join_path(repo.root, ".git/objects"));
  make_folders(join_path(repo.root, ".git/objects"));
  const Error error = error_of([&] { read_git_state(repo.root, true); });
  CHECK(error.kind == ErrorKind::kIo);
  CHECK(contains(error.message, repo.root));
}

TEST_CASE("bug: another user's repository is read, and refused as git refuses it where it would be written") {
  if (::geteuid() != 0) return;  // only root can give folders away
  const Repo repo;
  repo.commit("file", "x");
  for (const std::string& path : {repo.root, join_path(repo.root, ".git")}) {
    REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  }
  CHECK(find_git_root(repo.root) == repo.root);
  CHECK(read_git_state(repo.root, true)->branch == "main");
  CHECK(git_blobs_on_branches(repo.root, "file") == std::vector<std::string>{"x"});
  for (const auto& write : std::vector<std::function<void()>>{[&] { git_set_config(repo.root, "a.b", "c"); },
                                                              [&] { git_hooks_folder(repo.root); }}) {
    const Error error = error_of(write);
    CHECK(error.kind == ErrorKind::kRefused);
    CHECK_MESSAGE(contains(error.hint, "safe.directory " + repo.root), error.message);
  }
  CHECK(read_git_state(repo.root, false)->root == repo.root);
}

TEST_CASE("files are found in branches, tags, stashes, the index and linked worktrees, each once") {
  const Repo repo;
  repo.commit("a.mlx", "main");
  repo.git({"switch", "-q", "-c", "other"});
  repo.commit("a.mlx", "other");
  repo.git({"tag", "old"});
  repo.commit("a.mlx", "newer");
  repo.git({"switch", "-q", "main"});
  repo.write("a.mlx", "stashed");
  repo.write("new.mlx", "untracked");
  repo.git({"stash", "-q", "-u"});
  repo.write("a.mlx", "stashed again");
  repo.git({"stash", "-q"});
  repo.git({"worktree", "add", "-q", "--detach", repo.beside("linked")});
  write_file_atomically(join_path(repo.beside("linked"), "a.mlx"), std::string_view("linked"));
  repo.git({"-C", repo.beside("linked"), "add", "a.mlx"});
  repo.write("a.mlx", "staged");
  repo.git({"add", "a.mlx"});
  repo.write("large.mlx", std::string(100, 'x'));
  repo.git({"add", "large.mlx"});
  repo.write("a.mlx", "only on disk");

  std::vector<std::string> texts;
  for (const auto& [path, text] : git_files_anywhere(repo.root, ".mlx", 99)) texts.push_back(path + "=" + text);
  CHECK(texts == std::vector<std::string>{"a.mlx=linked", "a.mlx=main", "a.mlx=newer", "a.mlx=other", "a.mlx=staged",
                                          "a.mlx=stashed", "a.mlx=stashed again", "new.mlx=untracked"});
}

TEST_CASE("an unborn repository has no files anywhere") {
  const Repo repo;
  CHECK(git_files_anywhere(repo.root, ".mlx", 99).empty());
}
