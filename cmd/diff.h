// What `mlx diff` compares and what came out, between the files that find it, print it and turn it into JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "diff/diff_files.h"
#include "diff/diff_models.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/runs.h"

namespace mlx::cmd {

struct DiffOptions {
  std::vector<std::string> targets;
  std::vector<std::string> key;  // columns
  std::int64_t limit = 10;
  bool stat = false, name_only = false, name_status = false, exit_code = false;
  bool files_only() const { return stat || name_only || name_status; }
};

struct DiffSide {
  std::string name;                          // "data/fashion@v1", "data/fashion@v1:train", "worktree"
  std::optional<registry::Version> version;  // none: the worktree
  diff::Side side;
};

struct DiffPair {
  DiffSide before, after;
  bool models = false;  // whole versions of models
};

struct DiffOutcome {
  DiffPair pair;
  diff::Comparison comparison;
  std::optional<diff::ModelDiff> model;
  std::string model_note;  // why there is none
  bool different() const { return !comparison.files.empty(); }
};

// diff_sides.cpp: what the command line means. kUsage, kNotFound. Without targets every dataset that has a pointer and
// stands in the worktree.
std::vector<DiffPair> diff_pairs(const std::vector<std::string>& targets, Context& context);

// diff_text.cpp
void print_diff(Context& context, const DiffOutcome& outcome, const DiffOptions& options);
// diff_model_text.cpp
void print_tensors(Context& context, const diff::TensorsDiff& diff, std::size_t limit);
void print_model(Context& context, const DiffOutcome& outcome);
void print_values(Context& context, const char* title, const std::vector<diff::ValueChange>& changes);
// Text cut to `width` columns (code points), with "…" if something is left out.
std::string cut_to(const std::string& text, std::size_t width);

// diff_json.cpp
Json diff_json(const DiffOutcome& outcome);
Json values_json(const std::vector<diff::ValueChange>& changes);

// diff_runs.cpp: two runs side by side. True if they differ in more than their time.
bool diff_runs(const std::string& before, const std::string& after, Context& context);

}  // namespace mlx::cmd
