// Which removed and added files are one that was moved.
#include "store/worktree/moves.h"

#include <doctest/doctest.h>

namespace mlx::store {
namespace {

Entry file(const std::string& path, const std::string& content, std::uint32_t mode = kModeFile) {
  return {path, mode, content.size(), Digest::of(content)};
}

std::vector<std::string> paths(const std::vector<Entry>& entries) {
  std::vector<std::string> out;
  for (const Entry& entry : entries) out.push_back(entry.path);
  return out;
}

TEST_CASE("what has the same content, mode and a new place was moved") {
  Difference d =
      compare({file("a/x", "one"), file("b", "two"), file("run", "three"), file("stays", "s")},
              {file("b/x", "one"), file("c", "other"), file("go", "three", kModeExecutable), file("stays", "s")});
  const Moves moves = take_moves(d);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].first.path == "a/x");
  CHECK(moves[0].second.path == "b/x");
  CHECK(paths(d.removed) == std::vector<std::string>{"b", "run"});
  CHECK(paths(d.added) == std::vector<std::string>{"c", "go"});
}

TEST_CASE("files of the same content go together by base name first") {
  Difference d = compare({file("old/1", "same"), file("old/2", "same"), file("old/3", "same")},
                         {file("new/2", "same"), file("new/3", "same"), file("other", "same"), file("zz", "same")});
  const Moves moves = take_moves(d);
  REQUIRE(moves.size() == 3);
  CHECK(moves[0].first.path == "old/2");
  CHECK(moves[1].first.path == "old/3");
  CHECK(moves[2].first.path == "old/1");
  CHECK(moves[2].second.path == "other");
  CHECK(paths(d.added) == std::vector<std::string>{"zz"});
  CHECK(d.removed.empty());
}

TEST_CASE("empty files are new and gone") {
  Difference d = compare({file("a", "")}, {file("b", "")});
  CHECK(take_moves(d).empty());
  CHECK(d.added.size() == 1);
  CHECK(d.removed.size() == 1);
}

}  // namespace
}  // namespace mlx::store
