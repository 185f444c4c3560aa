// Datasets and models that fit each other, and rows out of named values.

#include "infer/examples.h"

#include "base/error.h"
#include "base/json.h"
#include "data/kinds/image_keys.h"

namespace mlx::infer {

const data::Kind* kind_of(const nn::Model& model) {
  for (const data::Kind* kind : data::kinds())
    if (model.graph.find(kind->input) != graph::kNone) return kind;
  return nullptr;
}

std::int64_t context_of(const nn::Model& model) {
  const data::Kind* const kind = kind_of(model);
  if (!kind || !kind->windows) return 0;
  const std::int64_t context =
      json_int(parse_json(model.config, "the model's config"), "context", "the model's config");
  if (context < 1) fail(ErrorKind::kCorrupt, "the model's config: 'context': expected at least 1, got {}", context);
  return context;
}

std::optional<data::Division> division_of(const Json& trained_on) {
  const std::string what = "the model's data";
  if (!trained_on.contains("split")) return {};
  return data::Division{data::split_rule_from_json(json_object(trained_on, "split", what), what), true};
}

data::Reading reading_of(const nn::Model& model) {
  data::Reading reading;
  reading.fitted = std::make_shared<data::Preprocessing>(model.preprocessing);
  reading.classes = model.labels;
  const std::string what = "the model's data";
  const Json trained_on = model.data.empty() ? Json::object() : parse_json(model.data, what);
  reading.division = division_of(trained_on);
  data::read_skip_bad(trained_on, what, reading.photos);
  if (trained_on.contains("column")) reading.column = json_string(trained_on, "column", what);
  return reading;
}

void check_kind(const nn::Model& model, const data::Kind& kind) {
  if (model.graph.find(kind.input) != graph::kNone) return;
  const data::Kind* const taken = kind_of(model);
  fail(ErrorKind::kUsage, "the model takes {}, the data holds {}", taken ? taken->name : "other inputs", kind.name);
}

void check_fits(const nn::Model& model, const data::Description& data) {
  check_kind(model, *data.kind);
  const data::Preprocessing& p = model.preprocessing;
  if (data.kind->windows && !p.tokenizer) fail(ErrorKind::kUsage, "the model has no tokenizer: it takes no text");
  if (p.height != 0 && (p.height != data.height || p.width != data.width || p.channels != data.channels)) {
    fail(ErrorKind::kUsage, "the model takes images of {}x{}x{}, the data holds {}x{}x{}", p.height, p.width,
         p.channels, data.height, data.width, data.channels);
  }
  if (!model.labels.empty() && static_cast<std::size_t>(data.outputs) > model.labels.size()) {
    fail(ErrorKind::kUsage, "the data has {} classes, the model {}", data.outputs, model.labels.size());
  }
}

data::Rows rows_of(std::string lines, const data::RowSchema& schema, const std::string& what) {
  NoProgress silent;
  const data::RowFile file{data::memory_source(std::move(lines)), data::TableKind::kJsonLines, what, "row"};
  return data::read_rows(file, schema, false, silent);
}

}  // namespace mlx::infer
