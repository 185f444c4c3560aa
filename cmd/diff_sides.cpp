// From words of the command line to two lists of files: versions, parts of versions, and the worktree.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/diff.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

using registry::ArtifactKind;
using registry::Repository;
using registry::Version;

struct Named {
  Version version;
  std::string path;       // inside it; "" for all
  bool selected = false;  // a selector was typed
};

bool is_artifact(Repository& repository, const std::string& name) {
  return registry::read_pointer(repository, name) || !registry::versions(repository, name).empty();
}

// A path of the worktree ("train/x.csv", typed in data/fashion) as the artifact it belongs to and what is inside.
std::optional<std::string> as_reference(const std::string& text, Context& context) {
  if (text.find_first_of("@:") != std::string::npos) return std::nullopt;
  Repository& repository = context.repository();
  const std::optional<std::string> inside =
      relative_inside(absolute_path(join_path(context.folder(), text)), repository.root());
  if (!inside || inside->empty()) return std::nullopt;
  for (std::string name = *inside; name != "." && !name.empty(); name = parent_path(name)) {
    if (!is_artifact(repository, name)) continue;
    return name == *inside ? name : name + ":" + inside->substr(name.size() + 1);
  }
  return std::nullopt;
}

Named find(const std::string& text, Context& context) {
  if (text.starts_with("run:")) {
    throw Error(ErrorKind::kUsage, fmt::format("diff: {} is a run, the other side is none", text),
                "mlx diff run:A run:B compares two runs");
  }
  const std::string reference = as_reference(text, context).value_or(text);
  const registry::Reference parsed = registry::parse_reference(reference);
  Named named{registry::resolve(context.repository(), reference), parsed.path, !parsed.selector.empty()};
  while (named.path.ends_with('/')) named.path.pop_back();
  return named;
}

// "A..B", "A.." and "A..SEL" (of the same artifact); nullopt if `text` is not a range.
std::optional<std::pair<std::string, std::string>> split_range(const std::string& text, Context& context) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos || dots == 0 || text.starts_with("../") || text[dots - 1] == '/') return std::nullopt;
  std::pair<std::string, std::string> ends{text.substr(0, dots), text.substr(dots + 2)};
  const std::size_t selector = ends.first.find('@');
  const bool bare = ends.second.find_first_of("@:/") == std::string::npos;
  if (!ends.second.empty() && bare && selector != std::string::npos && !is_artifact(context.repository(), ends.second))
    ends.second = ends.first.substr(0, selector + 1) + ends.second;
  return ends;
}

DiffSide of_version(Repository& repository, const Version& version) {
  registry::need_files_of(repository, version.name(), version.digest);
  const store::Store& store = repository.store();
  return {version.number > 0 ? version.name() : version.artifact + "@" + version.digest.brief(),
          version,
          {store.entries(version.digest),
           [&store](const store::Entry& entry) { return diff::stored_source(store, entry.content); }}};
}

DiffSide of_worktree(const std::string& artifact, Context& context) {
  Repository& repository = context.repository();
  const std::string full = join_path(repository.root(), artifact);
  if (!path_exists(full)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{} is not in the worktree", artifact),
                fmt::format("`mlx checkout {}` brings it", shell_quoted(artifact)));
  }
  const bool single = !is_folder(full);
  return {"worktree",
          std::nullopt,
          {store::scan(full, &repository.stat_cache(), repository.pool(), context.progress()),
           [full, single, &interruption = repository.interruption()](const store::Entry& entry) {
             return diff::disk_source(single ? full : join_path(full, entry.path), interruption);
           }}};
}

// Keeps only what is at `path`: a file as `file_name`, a folder's files by their paths below it.
bool narrow(DiffSide& side, const std::string& path, const std::string& file_name) {
  std::vector<store::Entry>& entries = side.side.entries;
  const auto open = side.side.open;
  side.name += ":" + path;
  for (const store::Entry& entry : entries) {
    if (entry.path != path) continue;
    const store::Entry whole = entry;
    side.side.open = [open, whole](const store::Entry&) { return open(whole); };
    entries = {whole};
    entries[0].path = file_name;
    return true;
  }
  const std::string prefix = path + "/";
  std::erase_if(entries, [&](const store::Entry& entry) { return !entry.path.starts_with(prefix); });
  for (store::Entry& entry : entries) entry.path.erase(0, prefix.size());
  side.side.open = [open, prefix](store::Entry entry) {
    entry.path.insert(0, prefix);
    return open(entry);
  };
  return !entries.empty();
}

void narrow_both(DiffPair& pair, const std::string& before, const std::string& after) {
  if (before.empty() && after.empty()) return;
  const std::string name = after.empty() ? before : after;
  const bool found_before = before.empty() || narrow(pair.before, before, name);
  const bool found_after = after.empty() || narrow(pair.after, after, name);
  if (found_before || found_after) return;
  throw Error(ErrorKind::kNotFound, fmt::format("neither {} nor {} exists", pair.before.name, pair.after.name),
              "`mlx ls REF` lists a version's files");
}

DiffPair against_worktree(const std::string& text, Context& context) {
  Repository& repository = context.repository();
  const Named named = find(text, context);
  const std::string& artifact = named.version.artifact;
  DiffPair pair{of_version(repository, named.version), {}, false};
  if (named.version.kind == ArtifactKind::kDataset) {
    pair.after = of_worktree(artifact, context);
  } else {
    if (!named.selected) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("diff: {} is a model, and models have no files in the worktree", artifact),
                  fmt::format("name the version to compare with: mlx diff {0}@~1 {0}", shell_quoted(artifact)));
    }
    pair.after = of_version(repository, registry::resolve(repository, artifact));
    pair.models = named.path.empty();
  }
  narrow_both(pair, named.path, named.path);
  return pair;
}

DiffPair between(const std::string& first, const std::string& second, Context& context) {
  const Named before = find(first, context), after = find(second, context);
  DiffPair pair{of_version(context.repository(), before.version), of_version(context.repository(), after.version),
                false};
  narrow_both(pair, before.path, after.path);
  pair.models = before.version.kind == ArtifactKind::kModel && after.version.kind == ArtifactKind::kModel &&
                before.path.empty() && after.path.empty();
  return pair;
}

std::vector<DiffPair> every_dataset(Context& context) {
  Repository& repository = context.repository();
  std::vector<DiffPair> pairs;
  for (const registry::Pointer& pointer : registry::all_pointers(repository)) {
    if (pointer.kind != ArtifactKind::kDataset || registry::erasure_of(repository, pointer.digest)) continue;
    try {
      pairs.push_back(against_worktree(join_path(repository.root(), pointer.artifact), context));
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;
      context.progress().warn(fmt::format("{}; {}", error.message, error.hint));
    }
  }
  return pairs;
}

}  // namespace

std::vector<DiffPair> diff_pairs(const std::vector<std::string>& targets, Context& context) {
  std::vector<DiffPair> pairs;
  if (targets.empty()) return every_dataset(context);
  if (targets.size() == 2) {
    pairs.push_back(between(targets[0], targets[1], context));
  } else if (targets.size() > 2) {
    throw Error(ErrorKind::kUsage, fmt::format("diff: {} things given; two can be compared", targets.size()),
                "usage: mlx diff [OPTION]... [A [B]]");
  } else if (const auto range = split_range(targets[0], context)) {
    pairs.push_back(range->second.empty() ? against_worktree(range->first, context)
                                          : between(range->first, range->second, context));
  } else {
    pairs.push_back(against_worktree(targets[0], context));
  }
  return pairs;
}

}  // namespace mlx::cmd
