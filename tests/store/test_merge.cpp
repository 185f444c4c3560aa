// Three-way merges of folders: an example for each rule, and random trees against a simple reference.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "store/format/merge.h"

using namespace mlx;
using namespace mlx::store;

namespace {

using TextTree = std::map<std::string, std::pair<std::uint32_t, std::string>>;  // path → mode, text

std::vector<Entry> entries(const TextTree& tree) {
  std::vector<Entry> list;
  for (const auto& [path, file] : tree) list.push_back({path, file.first, file.second.size(), Digest::of(file.second)});
  return list;
}

TextTree files(std::initializer_list<std::pair<const char*, const char*>> list) {
  TextTree tree;
  for (const auto& [path, text] : list) tree[path] = {kModeFile, text};
  return tree;
}

MergedEntries merge(const TextTree& base, const TextTree& ours, const TextTree& theirs, Favour favour = Favour::kNone) {
  return merge_entries(entries(base), entries(ours), entries(theirs), favour);
}

std::string conflict(const TextTree& base, const TextTree& ours, const TextTree& theirs) {
  std::string text;
  for (const MergeConflict& c : merge(base, ours, theirs).conflicts) text += c.path + ": " + c.what + "; ";
  return text;
}

bool holds_folder(const TextTree& tree, const std::string& path) {
  const auto next = tree.lower_bound(path + "/");
  return next != tree.end() && next->first.starts_with(path + "/");
}

// A tree in which no file is a folder of another.
void put(TextTree& tree, const std::string& path, std::uint32_t mode, const std::string& text) {
  if (holds_folder(tree, path)) return;
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
    if (tree.contains(path.substr(0, at))) return;
  tree[path] = {mode, text};
}

struct Random {
  std::mt19937 bits{7};
  unsigned below(unsigned n) { return static_cast<unsigned>(bits() % n); }
  void change(TextTree& tree, unsigned times) {
    static const char* const kPaths[] = {"a", "a-b", "a/x", "a/y", "a/z/1", "a/z/2", "b", "b/x", "c", "d/e/f", "d/e"};
    static const std::uint32_t kModes[] = {kModeFile, kModeFile, kModeExecutable, kModeLink};
    for (unsigned i = 0; i < times; ++i) {
      const std::string path = kPaths[below(11)];
      if (below(3) == 0) {
        tree.erase(path);
      } else {
        put(tree, path, kModes[below(4)], std::string(1, static_cast<char>('p' + below(3))));
      }
    }
  }
};

// The reference for one path: nullopt for a conflict; a value whose text is "" and mode 0 for "no file".
using File = std::pair<std::uint32_t, std::string>;
std::optional<File> by_the_book(const TextTree& base, const TextTree& ours, const TextTree& theirs,
                                const std::string& path) {
  const auto get = [&](const TextTree& tree) { return tree.contains(path) ? tree.at(path) : File{}; };
  const File b = get(base), o = get(ours), t = get(theirs);
  if (o == t || b == t) return o;
  if (b == o) return t;
  for (const File& file : {b, o, t})
    if (file.first == 0 || file.first == kModeLink) return std::nullopt;
  const bool text_ours = t.second == b.second, text_theirs = o.second == b.second, text_same = o.second == t.second;
  if (!text_ours && !text_theirs && !text_same) return std::nullopt;
  return File{t.first == b.first ? o.first : t.first, text_theirs ? t.second : o.second};
}

}  // namespace

TEST_CASE("merge: what one side did is taken, what both did alike is taken once") {
  const TextTree base = files({{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}});
  TextTree ours = base, theirs = base, both = base;
  ours["a"].second = both["a"].second = "2", ours["new"] = both["new"] = {kModeFile, "n"};
  theirs.erase("b"), both.erase("b");
  ours["c"].second = theirs["c"].second = both["c"].second = "3";
  const MergedEntries merged = merge(base, ours, theirs);
  CHECK(merged.conflicts.empty());
  CHECK(merged.entries == entries(both));
  CHECK(merged.from_ours == 2);
  CHECK(merged.from_theirs == 1);
}

TEST_CASE("merge: content of one side, executable bit of the other") {
  const TextTree base = files({{"run", "1"}});
  TextTree ours = files({{"run", "2"}}), theirs = base, both = ours;
  theirs["run"].first = both["run"].first = kModeExecutable;
  CHECK(merge(base, ours, theirs).entries == entries(both));
  CHECK(merge(base, theirs, ours).entries == entries(both));
  // A link that became a file counts as another file.
  theirs["run"].first = kModeLink;
  CHECK(conflict(base, ours, theirs) == "run: changed on both sides, differently; ");
}

TEST_CASE("merge: each kind of conflict is named") {
  const TextTree none, one = files({{"f", "1"}}), two = files({{"f", "2"}}), three = files({{"f", "3"}});
  CHECK(conflict(one, two, three) == "f: changed on both sides, differently; ");
  CHECK(conflict(none, two, three) == "f: added on both sides, differently; ");
  CHECK(conflict(one, two, none) == "f: changed in ours, deleted in theirs; ");
  CHECK(conflict(one, none, two) == "f: deleted in ours, changed in theirs; ");
  CHECK(conflict(none, one, files({{"f/g", "1"}})) == "f: a file on one side, a folder on the other; ");
  CHECK(conflict(none, files({{"f", "1"}, {"f-", "1"}}), files({{"f/g", "1"}})) ==
        "f: a file on one side, a folder on the other; ");
}

TEST_CASE("merge: a favour decides what is in conflict and nothing else") {
  const TextTree base = files({{"f", "1"}, {"g", "1"}}), ours = files({{"f", "2"}, {"g", "1"}, {"h", "1"}}),
                 theirs = files({{"g", "2"}});
  CHECK(merge(base, ours, theirs, Favour::kOurs).entries == entries(files({{"f", "2"}, {"g", "2"}, {"h", "1"}})));
  CHECK(merge(base, ours, theirs, Favour::kTheirs).entries == entries(files({{"g", "2"}, {"h", "1"}})));
  const TextTree file = files({{"f", "1"}}), folder = files({{"f/g", "1"}, {"k", "1"}});
  CHECK(merge({}, file, folder, Favour::kOurs).entries == entries(files({{"f", "1"}, {"k", "1"}})));
  CHECK(merge({}, file, folder, Favour::kTheirs).entries == entries(folder));
}

TEST_CASE("merge: random trees, as the textbook has it") {
  Random random;
  unsigned clean = 0, in_conflict = 0;
  for (int round = 0; round < 4000; ++round) {
    TextTree base;
    random.change(base, 8);
    TextTree ours = base, theirs = base, wanted;
    random.change(ours, random.below(5)), random.change(theirs, random.below(5));
    std::set<std::string> paths, conflicts;
    for (const TextTree* tree : {&base, &ours, &theirs})
      for (const auto& [path, file] : *tree) paths.insert(path);
    for (const std::string& path : paths) {
      const std::optional<File> file = by_the_book(base, ours, theirs, path);
      if (!file) conflicts.insert(path), wanted[path] = ours.contains(path) ? ours.at(path) : File{};
      if (file && file->first != 0) wanted[path] = *file;
    }
    std::erase_if(wanted, [](const auto& item) { return item.second.first == 0; });
    for (const auto& [path, file] : wanted)
      if (holds_folder(wanted, path)) conflicts.insert(path);
    const MergedEntries merged = merge(base, ours, theirs), mirrored = merge(base, theirs, ours);
    std::set<std::string> found, found_mirrored;
    for (const MergeConflict& c : merged.conflicts) found.insert(c.path);
    for (const MergeConflict& c : mirrored.conflicts) found_mirrored.insert(c.path);
    REQUIRE(found == conflicts);
    if (conflicts.empty()) {
      REQUIRE(merged.entries == entries(wanted));
      REQUIRE(mirrored.entries == merged.entries);
      REQUIRE(found_mirrored.empty());
    }
    (conflicts.empty() ? clean : in_conflict) += 1;
    REQUIRE(merge(base, ours, base).entries == entries(ours));
    REQUIRE(merge(base, base, theirs).entries == entries(theirs));
    for (const Favour favour : {Favour::kOurs, Favour::kTheirs}) {
      const MergedEntries settled = merge(base, ours, theirs, favour);
      REQUIRE(settled.conflicts.empty());
      REQUIRE(!find_path_clash(settled.entries));
      if (conflicts.empty()) REQUIRE(settled.entries == merged.entries);
    }
  }
  CHECK(clean > 500);
  CHECK(in_conflict > 500);
}
