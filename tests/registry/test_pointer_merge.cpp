// Merging pointers: names, kinds, single files, what is stored, and what must be here for it.
#include <doctest/doctest.h>

#include "clone.h"
#include "fails_with.h"
#include "registry/interop/pointer_merge.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;
using store::Favour;

namespace {

// A stored dataset of these files.
Pointer dataset(Clone& c, const std::string& artifact, const std::vector<std::pair<std::string, std::string>>& files) {
  const auto batch = c.repo().store().begin();
  std::vector<store::Entry> entries;
  for (const auto& [path, text] : files)
    entries.push_back({path, store::kModeFile, text.size(), batch->add_blob(as_bytes(text))});
  const store::ManifestSummary summary = batch->add_manifest(entries);
  batch->commit();
  return {.artifact = artifact,
          .kind = ArtifactKind::kDataset,
          .digest = summary.id,
          .files = summary.files,
          .size = summary.bytes};
}

std::string whole(const PointerMerge& merge) {
  return merge.conflicts.size() == 1 && merge.conflicts[0].path.empty() ? merge.conflicts[0].what : "";
}

}  // namespace

TEST_CASE("merge: a folder renamed on one side and changed on the other is both") {
  Clone c;
  const Pointer base = dataset(c, "x", {{"a", "1"}, {"b", "1"}}), theirs = dataset(c, "x", {{"a", "1"}, {"b", "2"}});
  Pointer ours = base;
  ours.artifact = "y";
  const PointerMerge merge = merge_pointers(c.repo(), base, ours, theirs, Favour::kNone, false);
  CHECK(merge.conflicts.empty());
  Pointer wanted = theirs;
  wanted.artifact = "y";
  CHECK(merge.pointer == wanted);
  Pointer other = theirs;
  other.artifact = "z";
  CHECK(whole(merge_pointers(c.repo(), base, ours, other, Favour::kNone, false)) == "called y in ours and z in theirs");
  CHECK(merge_pointers(c.repo(), base, ours, other, Favour::kTheirs, false).pointer == other);
}

TEST_CASE("merge: a single file renamed on one side and changed on the other keeps name and content") {
  Clone c;
  const Pointer base = dataset(c, "x.txt", {{"x.txt", "1"}}), ours = dataset(c, "y.txt", {{"y.txt", "1"}}),
                theirs = dataset(c, "x.txt", {{"x.txt", "2"}});
  const PointerMerge merge = merge_pointers(c.repo(), base, ours, theirs, Favour::kNone, false);
  CHECK(merge.conflicts.empty());
  CHECK(merge.pointer == dataset(c, "y.txt", {{"y.txt", "2"}}));
}

TEST_CASE("merge: a result that could not be added as a folder is a conflict of the whole") {
  Clone c;
  const auto merged = [&](const Pointer& base, const Pointer& ours, const Pointer& theirs) {
    return whole(merge_pointers(c.repo(), base, ours, theirs, Favour::kNone, false));
  };
  const Pointer both = dataset(c, "d/x", {{"a", "1"}, {"b", "1"}, {"x", "1"}});
  CHECK(merged(dataset(c, "d/x", {{"a", "1"}, {"b", "1"}}), dataset(c, "d/x", {{"a", "1"}}),
               dataset(c, "d/x", {{"b", "1"}})) == "the two sides together deleted every file");
  CHECK(merged(both, dataset(c, "d/x", {{"a", "1"}, {"x", "1"}}), dataset(c, "d/x", {{"b", "1"}, {"x", "1"}})) ==
        "only a file with the folder's own name would be left");
  CHECK(merged(both, dataset(c, "d/x", {{"x", "2"}}), dataset(c, "d/x", {{"b", "1"}})) ==
        "a file on one side, a folder on the other");
  Pointer model = both;
  model.kind = ArtifactKind::kModel;
  CHECK(merged(both, both, model) == "a dataset on one side, a model on the other");
}

TEST_CASE("merge: a dry run stores nothing, and decisions by digests need no content") {
  Clone c;
  const Pointer base = dataset(c, "x", {{"a", "1"}, {"b", "1"}}), ours = dataset(c, "x", {{"a", "2"}, {"b", "1"}}),
                theirs = dataset(c, "x", {{"a", "1"}, {"b", "2"}});
  const PointerMerge planned = merge_pointers(c.repo(), base, ours, theirs, Favour::kNone, true);
  CHECK_FALSE(c.repo().store().has(store::ObjectKind::kManifest, planned.pointer.digest));
  const PointerMerge merge = merge_pointers(c.repo(), base, ours, theirs, Favour::kNone, false);
  CHECK(merge.pointer == planned.pointer);
  CHECK(c.repo().store().entries(merge.pointer.digest).size() == 2);

  Pointer elsewhere = theirs;
  elsewhere.digest = Digest::of("elsewhere");
  CHECK(merge_pointers(c.repo(), base, base, elsewhere, Favour::kNone, false).pointer == elsewhere);
  CHECK(merge_pointers(c.repo(), base, elsewhere, elsewhere, Favour::kNone, false).pointer == elsewhere);
  CHECK(fails_with(ErrorKind::kNotFound, "mlx fetch --all",
                   [&] { merge_pointers(c.repo(), base, ours, elsewhere, Favour::kNone, false); }) == "");
}
