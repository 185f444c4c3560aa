// Finds datasets in the repository and on disk, and their statistics.
#include "cmd/data_subject.h"

#include "base/error.h"
#include "base/json.h"
#include "data/quality/measure.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/references.h"
#include "store/worktree/scan.h"
#include "work/inputs.h"

namespace mlx::cmd {
namespace {

DataSubject from_version(const registry::Version& version, Context& context) {
  registry::need_files_of(context.repository(), version.name(), version.digest);
  DataSubject out;
  out.name = version.name(), out.version = version, out.manifest = version.digest;
  out.store = &context.repository().store();
  return out;
}

DataSubject from_disk(const std::string& word, Context& context) {
  DataSubject out;
  out.name = word, out.path = join_path(context.folder(), word);
  while (out.path.size() > 1 && out.path.ends_with('/')) out.path.pop_back();
  if (!path_exists(out.path)) {
    throw Error(ErrorKind::kNotFound, fmt::format("'{}' is neither a dataset nor a file or folder", word),
                context.has_repository() ? "`mlx ls` lists datasets" : "outside of a repository it is a path");
  }
  out.place = std::make_shared<TempFolder>(context.environment());
  const std::string folder = join_path(out.place->path(), "store");
  store::Store::create(folder, context.disk());
  out.own_store = std::make_shared<store::Store>(
      folder, context.disk(), context.pool(), store::StoreOptions{.interruption = &context.progress().interruption()});
  out.manifest = store::add_folder(*out.own_store, out.path, nullptr, nullptr, context.pool(), context.progress()).id;
  out.store = out.own_store.get();
  return out;
}

std::string attachment_name(const std::string& target) {
  return target.empty() ? "all" : "target " + target;
}

std::optional<data::Statistics> kept_statistics(const DataSubject& subject, const std::string& target,
                                                Context& context) {
  if (!subject.version) return {};
  for (const registry::Attachment& each :
       registry::attachments(context.repository(), subject.version->digest, "statistics")) {
    if (each.name != attachment_name(target)) continue;
    try {
      const Bytes bytes = context.repository().store().read_blob(each.blob);
      const Json json = parse_json(as_text(bytes), "statistics");
      if (json_string(json, "schema", "statistics") == data::kStatisticsFormat)
        return data::statistics_from_json(json_object(json, "statistics", "statistics"), "statistics");
    } catch (const Error& error) {
      // They can be measured again: content that is not here, or is of another version of mlx.
      const bool again = error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kNotFound;
      if (!again) throw;
    }
  }
  return {};
}

}  // namespace

DataSubject find_data(const std::string& word, Context& context) {
  const bool is_path = word.starts_with('.') || word.starts_with('/');
  if (is_path || !context.has_repository()) return from_disk(word, context);
  try {
    return from_version(work::resolve_dataset(context.repository(), word, context.progress()), context);
  } catch (const Error& error) {
    const bool on_disk = error.kind == ErrorKind::kNotFound && path_exists(join_path(context.folder(), word));
    if (!on_disk) throw;
    return from_disk(word, context);
  }
}

std::optional<DataSubject> version_before(const DataSubject& subject, Context& context) {
  if (!subject.version) return {};
  std::optional<registry::Version> before;
  for (registry::Version& version : registry::versions(context.repository(), subject.version->artifact)) {
    const bool earlier = subject.version->number == 0 || version.number < subject.version->number;
    if (earlier && version.digest != subject.manifest) before = std::move(version);
  }
  if (!before) return {};
  return from_version(*before, context);
}

void keep_statistics(const DataSubject& subject, const std::string& target, const data::Statistics& statistics,
                     Context& context) {
  if (!subject.version || subject.version->number == 0) return;
  const Json json = {{"schema", data::kStatisticsFormat}, {"statistics", to_json(statistics)}};
  try {
    registry::attach(context.repository(), subject.manifest, "statistics", attachment_name(target),
                     as_bytes(canonical(json)));
  } catch (const Error& error) {
    // A repository that cannot be written, or only by others, is described all the same.
    if (error.kind != ErrorKind::kIo && error.kind != ErrorKind::kRefused && error.kind != ErrorKind::kConflict) throw;
  }
}

data::Statistics statistics_of(const DataSubject& subject, const std::string& target, bool again, Context& context) {
  if (!again) {
    if (std::optional<data::Statistics> kept = kept_statistics(subject, target, context)) return *kept;
  }
  data::Statistics statistics =
      data::measure_statistics(*subject.store, subject.manifest, "", target, nullptr, context.progress());
  keep_statistics(subject, target, statistics, context);
  return statistics;
}

}  // namespace mlx::cmd
