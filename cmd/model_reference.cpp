// See model_reference.h.
#include "cmd/model_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/kinds/rows_dataset.h"
#include "infer/examples.h"
#include "registry/repository.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/domains.h"

namespace mlx::cmd {
namespace {

constexpr const char *kAttached = "reference", *kAttachedName = "training";

std::optional<monitor::Reference> kept_reference(const registry::Version& version,
                                                 const std::vector<monitor::Column>& columns, Context& context) {
  for (const registry::Attachment& each : registry::attachments(context.repository(), version.digest, kAttached)) {
    if (each.name != kAttachedName) continue;
    try {
      const Bytes bytes = context.repository().store().read_blob(each.blob);
      monitor::Reference out = monitor::reference_from_json(parse_json(as_text(bytes), kAttached), kAttached);
      const auto column_of = [](const monitor::ColumnReference& column) { return column.column; };
      if (std::ranges::equal(out.columns, columns, {}, column_of)) return out;
    } catch (const Error& error) {
      // It can be made again: content that is not here, or is of another version of mlx.
      if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    }
  }
  return {};
}

// What is known of an encrypted dataset must go when its key does.
void keep_reference(const registry::Version& version, const Digest& data, const monitor::Reference& reference,
                    Context& context) {
  registry::Repository& repository = context.repository();
  if (version.number == 0) return;
  if (registry::domain_of_version(repository, data) != registry::domain_of_version(repository, version.digest)) return;
  try {
    registry::attach(repository, version.digest, kAttached, kAttachedName,
                     as_bytes(canonical(monitor::to_json(reference))));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo && error.kind != ErrorKind::kRefused && error.kind != ErrorKind::kConflict) throw;
  }
}

std::string name_of_data(const Digest& digest, Context& context) {
  for (const registry::Version& version : registry::versions(context.repository()))
    if (version.digest == digest && version.kind == registry::ArtifactKind::kDataset) return version.name();
  return digest.text();
}

struct TrainedOn {
  Digest digest;
  std::string inputs, answers;  // splits
};

// Answers are those on data that the model did not learn, where there is such a split: it is surer of what it knows.
TrainedOn trained_on(const infer::Model& model, const std::string& name, Context& context) {
  const Json data = model.about().data.empty() ? Json::object() : parse_json(model.about().data, "the model's data");
  if (!context.has_repository() || !data.contains("dataset"))
    throw Error(ErrorKind::kUsage, fmt::format("it is not known what data {} was trained on", name),
                "--against DATA compares with that data");
  const std::string what = "the model's data";
  TrainedOn out{Digest::parse(json_string(data, "dataset", what)), json_string(data, "train", what), {}};
  registry::need_files_of(context.repository(), "the dataset that " + name + " was trained on", out.digest);
  const std::vector<std::string> splits =
      data::splits(context.repository().store(), out.digest, infer::reading_of(model.about()));
  const std::string valid = json_string(data, "valid", what);
  out.answers = out.inputs;
  for (const std::string& each : {std::string("test"), valid})
    if (std::ranges::find(splits, each) != splits.end()) out.answers = each;
  return out;
}

}  // namespace

data::Reading lenient_reading(const infer::Model& model) {
  data::Reading reading = infer::reading_of(model.about());
  if (!reading.fitted->rows) return reading;
  auto fitted = std::make_shared<data::Preprocessing>(*reading.fitted);
  fitted->rows = monitor::lenient(*fitted->rows);
  reading.fitted = std::move(fitted);
  return reading;
}

std::string observe_split(const infer::Model& model, const DataSubject& subject, const std::string& split,
                          monitor::Parts parts, monitor::Items& to, Context& context) {
  const data::Reading reading = lenient_reading(model);
  Progress& progress = context.progress();
  switch (model.signature().takes) {
    case infer::Takes::kRows:
      monitor::observe_rows(model, data::load_rows(*subject.store, subject.manifest, split, reading, progress), parts,
                            to, progress);
      break;
    case infer::Takes::kImages: {
      const data::DatasetPtr images = data::load(*subject.store, subject.manifest, split, reading, progress);
      infer::check_fits(model.about(), images->describe());
      monitor::observe_images(model, *images, parts, to, progress);
      break;
    }
    default:
      if (parts.inputs)
        monitor::observe_text(data::split_of(*subject.store, subject.manifest, split, reading), to, progress);
  }
  return subject.name + ":" + split;
}

monitor::Reference training_reference(const infer::Model& model, const registry::Version& version, bool again,
                                      Context& context) {
  const std::vector<monitor::Column> columns = monitor::columns_of(model);
  const bool stored = context.has_repository() && version.number > 0;
  if (stored && !again)
    if (std::optional<monitor::Reference> kept = kept_reference(version, columns, context)) return *kept;
  const TrainedOn data = trained_on(model, version.name(), context);
  DataSubject subject;
  subject.name = name_of_data(data.digest, context), subject.manifest = data.digest;
  subject.store = &context.repository().store();
  monitor::Recorder inputs(columns), answers(columns);
  monitor::Reference out;
  out.data = observe_split(model, subject, data.inputs, {.answers = false}, inputs, context);
  out.columns = inputs.finish();
  if (std::ranges::any_of(columns, &monitor::Column::prediction)) {
    observe_split(model, subject, data.answers, {.inputs = false}, answers, context);
    out.predictions = data.answers;
    std::vector<monitor::ColumnReference> said = answers.finish();
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].prediction) out.columns[i] = std::move(said[i]);
  }
  if (stored) keep_reference(version, data.digest, out, context);
  return out;
}

}  // namespace mlx::cmd
