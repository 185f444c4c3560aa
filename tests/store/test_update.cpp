// A version with one part replaced or dropped.
#include "fixture.h"
#include "store/worktree/update.h"

using namespace mlx;
using namespace mlx::store;

namespace {

Entry entry(const std::string& path, const std::string& content = "x") {
  return {path, kModeFile, content.size(), Digest::of(content)};
}

std::string paths_of(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& one : entries) text += one.path + " ";
  return text;
}

}  // namespace

TEST_CASE("parts come from the folder, the rest from the version") {
  const std::vector<Entry> base = {entry("a"), entry("b/1"), entry("b/2"), entry("bc")};
  const std::vector<Entry> standing = {entry("a", "new"), entry("b/2", "new"), entry("b/3"), entry("z")};
  const std::vector<Entry> after = with_parts(base, standing, {"b"});
  CHECK(paths_of(after) == "a b/2 b/3 bc ");
  CHECK(after[0] == base[0]);
  CHECK(after[1] == standing[1]);
  CHECK(paths_of(with_parts(base, {}, {"b", "a"})) == "bc ");
  CHECK(paths_of(with_parts(base, {}, {"none"})) == "a b/1 b/2 bc ");
}

TEST_CASE("a file that became a folder, and a folder that became a file, are no clash") {
  CHECK(paths_of(with_parts({entry("a"), entry("b")}, {entry("a/1"), entry("a/2")}, {"a/1"})) == "a/1 b ");
  CHECK(paths_of(with_parts({entry("a/1"), entry("a/2"), entry("b")}, {entry("a")}, {"a"})) == "a b ");
  // Nothing is there: nothing above it is removed.
  CHECK(paths_of(with_parts({entry("a"), entry("b")}, {}, {"a/1"})) == "a b ");
}

TEST_CASE("a part that is nowhere is not found, one that is left out is an error") {
  TestStore t;
  const std::string folder = t.temp.path() + "/folder";
  write_test_file(folder + "/.mlxignore", "*.tmp\n");
  write_test_file(folder + "/x.tmp", "x");
  write_test_file(folder + "/file", "content");
  const std::vector<Entry> base = {entry("gone")};
  const auto add = [&](const std::string& part) {
    return add_parts(*t.store, base, folder, {part}, t.pool, t.progress);
  };
  CHECK(error_of([&] { add("none"); }) == ErrorKind::kNotFound);
  CHECK(error_of([&] { add("x.tmp"); }) == ErrorKind::kUsage);
  const ManifestSummary with_file = add("file");
  CHECK(paths_of(t.store->entries(with_file.id)) == "file gone ");
  CHECK(t.store->has_whole_blob(Digest::of(std::string_view("content"))));
  CHECK(add("gone").files == 0);
  CHECK(drop_parts(*t.store, t.store->entries(with_file.id), {"gone"}).files == 1);
}
