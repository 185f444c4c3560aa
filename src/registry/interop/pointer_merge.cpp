// Merges the pointers' own fields by the rule of three-way merge, then their versions' file lists.
#include "registry/interop/pointer_merge.h"

#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/domains.h"

namespace mlx::registry {
namespace {

using store::Entry;
using store::Favour;

// Three-way merge of one value; nullopt if both sides changed it.
template <typename T>
std::optional<T> merge_value(const std::optional<T>& base, const T& ours, const T& theirs, Favour favour) {
  if (ours == theirs || (base && *base == theirs)) return ours;
  if (base && *base == ours) return theirs;
  if (favour == Favour::kNone) return std::nullopt;
  return favour == Favour::kOurs ? ours : theirs;
}

std::vector<Entry> entries_of(Repository& repository, const Pointer& pointer) {
  const bool here = repository.store().has(store::ObjectKind::kManifest, pointer.digest);
  if (!here && !fetch_files_of(repository, pointer.digest)) {
    throw Error(ErrorKind::kNotFound,
                fmt::format("{}: version {} is not in this repository, so that it cannot be merged", pointer.artifact,
                            pointer.digest.brief()),
                fmt::format("run `mlx fetch --all`, then `git checkout -m -- {}` to merge again",
                            shell_quoted(pointer_path(pointer.kind, pointer.artifact))));
  }
  return repository.store().entries(pointer.digest);
}

// True for a dataset that is a single file, not a folder.
bool is_single(const std::vector<Entry>& entries, const Pointer& pointer) {
  return entries.size() == 1 && entries[0].path == base_name(pointer.artifact);
}

// A single file's entry has the file's name, which the other side may have changed.
void rename_single(std::vector<Entry>& entries, const Pointer& pointer, const std::string& artifact) {
  if (is_single(entries, pointer)) entries[0].path = base_name(artifact);
}

void take(PointerMerge& merge, const Pointer& side) {
  merge.pointer.digest = side.digest;
  merge.pointer.files = side.files;
  merge.pointer.size = side.size;
}

void store_entries(Repository& repository, std::vector<Entry> entries, bool dry_run, PointerMerge& merge) {
  store::ManifestSummary summary = store::summarize(entries);
  if (!dry_run) {  // even if it is stored already: the batch protects it from gc
    repository.store().use_domain(domain_of(repository, merge.pointer.artifact));
    const std::unique_ptr<store::Batch> batch = repository.store().begin();
    summary = batch->add_manifest(std::move(entries));
    batch->commit();
  }
  merge.pointer.digest = summary.id;
  merge.pointer.files = summary.files;
  merge.pointer.size = summary.bytes;
}

void merge_folders(Repository& repository, const std::optional<Pointer>& base, const Pointer& ours,
                   const Pointer& theirs, Favour favour, bool dry_run, PointerMerge& merge) {
  std::vector<Entry> before = base ? entries_of(repository, *base) : std::vector<Entry>();
  std::vector<Entry> our = entries_of(repository, ours), their = entries_of(repository, theirs);
  const bool single = is_single(our, ours);
  if (single != is_single(their, theirs)) {
    if (favour != Favour::kNone) return take(merge, favour == Favour::kOurs ? ours : theirs);
    merge.conflicts.push_back({"", "a file on one side, a folder on the other"});
    return;
  }
  if (base && single != is_single(before, *base)) before.clear();
  if (base) rename_single(before, *base, merge.pointer.artifact);
  rename_single(our, ours, merge.pointer.artifact);
  rename_single(their, theirs, merge.pointer.artifact);
  store::MergedEntries merged = store::merge_entries(before, our, their, favour);
  merge.from_ours = merged.from_ours;
  merge.from_theirs = merged.from_theirs;
  merge.conflicts = std::move(merged.conflicts);
  if (!merge.conflicts.empty()) return;
  // A merge must not make a dataset that `mlx add` would refuse.
  if (merged.entries.empty()) {
    merge.conflicts.push_back({"", "the two sides together deleted every file"});
  } else if (!single && is_single(merged.entries, merge.pointer)) {
    merge.conflicts.push_back({"", "only a file with the folder's own name would be left"});
  } else {
    store_entries(repository, std::move(merged.entries), dry_run, merge);
  }
}

}  // namespace

PointerMerge merge_pointers(Repository& repository, const std::optional<Pointer>& base, const Pointer& ours,
                            const Pointer& theirs, Favour favour, bool dry_run) {
  PointerMerge merge;
  merge.pointer = ours;
  if (ours.kind != theirs.kind) {
    merge.conflicts.push_back({"", "a dataset on one side, a model on the other"});
    return merge;
  }
  const auto name =
      merge_value(base ? std::optional(base->artifact) : std::nullopt, ours.artifact, theirs.artifact, favour);
  if (!name) {
    merge.conflicts.push_back({"", fmt::format("called {} in ours and {} in theirs", ours.artifact, theirs.artifact)});
    return merge;
  }
  merge.pointer.artifact = *name;
  const bool model = ours.kind == ArtifactKind::kModel;
  const auto digest = merge_value(base ? std::optional(base->digest) : std::nullopt, ours.digest, theirs.digest,
                                  model ? favour : Favour::kNone);
  // A file renamed on one side has another manifest under its new name, even if only one side changed it.
  const bool renamed = ours.artifact != theirs.artifact;
  if (model && !digest) {
    merge.conflicts.push_back(
        {"", "the two sides have different models: choose one, because weights cannot be merged"});
  } else if (digest && (model || !renamed)) {
    take(merge, *digest == ours.digest ? ours : theirs);
  } else {
    merge_folders(repository, base, ours, theirs, favour, dry_run, merge);
  }
  return merge;
}

}  // namespace mlx::registry
