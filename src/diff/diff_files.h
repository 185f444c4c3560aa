// Differences between two folders of files, and inside files of known kinds: tables, tensors, IDX, short texts. Used by
// cmd/diff.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "diff/diff_rows.h"
#include "diff/diff_tensors.h"
#include "diff/readers.h"
#include "diff/sequence_diff.h"
#include "store/format/manifest.h"

namespace mlx::diff {

struct Side {
  std::vector<store::Entry> entries;  // sorted by path
  std::function<OpenSource(const store::Entry&)> open;
};

struct ContentOptions {
  bool contents = true;  // false: only which files differ
  RowOptions rows;
  std::size_t most_files = 200;         // contents are compared for this many files, first by path
  std::vector<std::string> names_only;  // paths whose contents the caller compares
};

struct IdxSummary {
  std::string type;  // "u8"
  std::vector<std::uint64_t> dims;
  std::map<std::int64_t, std::uint64_t> labels;  // examples of each class; empty unless the file holds labels
};

struct TextDiff {
  std::vector<std::string> before, after;  // lines
  std::vector<Step> steps;
};

struct FileDiff {
  enum class Kind { kAdded, kRemoved, kChanged, kMoved } kind = Kind::kChanged;
  std::optional<store::Entry> before, after;
  std::optional<RowDiff> rows;
  std::optional<TensorsDiff> tensors;
  std::optional<std::pair<IdxSummary, IdxSummary>> idx;
  std::optional<TextDiff> text;
  std::string note;  // why the contents were not compared: "after: line 3: 2 cells, 3 columns"
  const store::Entry& entry() const { return after ? *after : *before; }
};

struct FolderCount {  // of images
  std::string folder;
  std::uint64_t before = 0, after = 0, added = 0, removed = 0, changed = 0;
};

struct Comparison {
  std::vector<FileDiff> files;                      // those that differ, by path
  std::vector<FolderCount> images;                  // folders whose images differ, by path
  std::uint64_t same = 0;                           // files that do not differ
  std::uint64_t bytes_before = 0, bytes_after = 0;  // of everything
  std::size_t not_compared = 0;                     // contents beyond ContentOptions::most_files
};

// A malformed file is a note, not an error; a damaged store or disk is an error.
Comparison compare_sides(const Side& before, const Side& after, const ContentOptions& options, Pool& pool,
                         Progress& progress);

// diff_contents.cpp: fills in one of rows, tensors, idx, text, or the note.
void compare_contents(const Side& before, const Side& after, const ContentOptions& options, Pool& pool,
                      Progress& progress, FileDiff& file);

}  // namespace mlx::diff
