// See models.h.
#include "serve/models.h"

#include <fmt/format.h>

namespace mlx::serve {

Models::Models(const std::vector<ModelSpec>& specs, const ServerOptions& options) {
  for (const ModelSpec& spec : specs) models_.push_back(serve_model(spec, options));
}

VisibleModels Models::visible(const ApiKey* key) const {
  std::vector<ServedModel*> out;
  for (const auto& model : models_)
    if (key == nullptr || key->may_ask(model->spec().name)) out.push_back(model.get());
  return VisibleModels(std::move(out));
}

ServedModel* VisibleModels::find(std::string_view name) const {
  for (ServedModel* model : models_) {
    const ModelSpec& spec = model->spec();
    if (name == spec.name || name == spec.name + "/versions/" + spec.version) return model;
  }
  for (ServedModel* model : models_)
    if (name == model->spec().reference) return model;
  return nullptr;
}

std::string VisibleModels::names() const {
  std::string out;
  for (const ServedModel* model : models_)
    out += fmt::format("{}'{}', version {}", out.empty() ? "" : "; ", model->spec().name, model->spec().version);
  return out;
}

void Models::finish() {
  for (const auto& model : models_) model->finish();
}

}  // namespace mlx::serve
