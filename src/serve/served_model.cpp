// Which kind of model is served how.
#include "serve/served_model.h"

#include "base/error.h"
#include "graph/passes/passes.h"
#include "serve/embeddings.h"

namespace mlx::serve {

ModelSample ServedModel::sample() const {
  ModelSample out{spec_.name, spec_.version, spec_.digest, model().about().precision, waiting(), metrics_->counts()};
  if (spec_.live) out.drift = spec_.live->state();
  return out;
}

std::string ServedModel::version_header() const {
  return fmt::format("Mlx-Model-Version: {}\r\n", spec_.version);
}

TextModel& ServedModel::text() {
  fail(ErrorKind::kUsage, "'{0}' does not generate text; POST /v2/models/{0}/infer asks it", spec().name);
}

Vectors ServedModel::vectors() {
  fail(ErrorKind::kUsage, "'{}' makes no vectors of texts", spec().name);
}

const data::Tokenizer& tokenizer_of(const ModelSpec& spec) {
  if (spec.model->about().preprocessing.tokenizer) return *spec.model->about().preprocessing.tokenizer;
  throw Error(ErrorKind::kUsage, fmt::format("{} has no tokenizer: it reads numbers, not text", spec.name),
              "a model that `mlx train` made from text has one");
}

std::unique_ptr<ServedModel> serve_model(const ModelSpec& spec, const ServerOptions& options) {
  switch (spec.model->signature().takes) {
    case infer::Takes::kImages:
    case infer::Takes::kRows:
      return serve_batches(spec, options);
    case infer::Takes::kText:
      return graph::is_encoder(spec.model->graph()) ? serve_encoder(spec, options) : serve_text(spec, options);
    case infer::Takes::kTensors:
      break;
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("{} is of family '{}', which takes neither images, rows nor text", spec.name,
                          spec.model->about().family),
              "only these can be served; `mlx show` says what the model takes");
}

}  // namespace mlx::serve
