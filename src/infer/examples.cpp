// Makes batches for each kind of data, and rows from named values.

#include "infer/examples.h"

#include "base/error.h"
#include "base/json.h"

namespace mlx::infer {
namespace {

const char* text_of(data::Kind kind) {
  return kind == data::Kind::kImages ? "images" : kind == data::Kind::kFeatures ? "rows of features" : "text";
}

data::Kind kind_of(const nn::Model& model) {
  for (const data::Kind kind : {data::Kind::kFeatures, data::Kind::kTokens}) {
    if (model.graph.find(data::input_name(kind)) != graph::kNone) return kind;
  }
  return data::Kind::kImages;
}

}  // namespace

std::unique_ptr<data::BatchSource> batches_of(const data::Split& split, const nn::Preprocessing& preprocessing,
                                              std::int64_t context, data::Loader::Options options, Pool& pool) {
  const data::BatchOptions plain{options.batch, options.seed, options.shuffle, options.drop_last};
  switch (split.about.kind) {
    case data::Kind::kImages:
      break;
    case data::Kind::kFeatures:
      return data::row_batches(split.rows, preprocessing.rows.value(), plain);
    case data::Kind::kTokens:
      return data::text_batches(split.text, context, plain);
  }
  options.normalization = preprocessing.normalization;
  return data::image_batches(split.images, std::move(options), pool);
}

std::int64_t context_of(const nn::Model& model) {
  if (kind_of(model) != data::Kind::kTokens) return 0;
  const std::int64_t context =
      json_int(parse_json(model.config, "the model's config"), "context", "the model's config");
  if (context < 1) fail(ErrorKind::kCorrupt, "the model's config: 'context': expected at least 1, got {}", context);
  return context;
}

data::Reading reading_of(const nn::Model& model) {
  data::Reading reading;
  if (model.preprocessing.rows) reading.schema = std::make_shared<data::RowSchema>(*model.preprocessing.rows);
  if (model.tokenizer) reading.known_tokenizer = std::make_shared<data::Tokenizer>(*model.tokenizer);
  return reading;
}

void check_kind(const nn::Model& model, data::Kind kind) {
  const data::Kind taken = kind_of(model);
  if (taken != kind) fail(ErrorKind::kUsage, "the model takes {}, the data holds {}", text_of(taken), text_of(kind));
}

void check_fits(const nn::Model& model, const data::Description& data) {
  check_kind(model, data.kind);
  const nn::Preprocessing& p = model.preprocessing;
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
