// See models.h.
#include "serve/models.h"

#include <fmt/format.h>

namespace mlx::serve {

Models::Models(const std::vector<ModelSpec>& specs, const ServerOptions& options) {
  for (const ModelSpec& spec : specs) models_.push_back(serve_model(spec, options));
}

ServedModel* Models::find(std::string_view name) const {
  for (const auto& model : models_) {
    const ModelSpec& spec = model->spec();
    if (name == spec.name || name == spec.name + "/versions/" + spec.version) return model.get();
  }
  for (const auto& model : models_)
    if (name == model->spec().reference) return model.get();
  return nullptr;
}

std::string Models::names() const {
  std::string out;
  for (const auto& model : models_)
    out += fmt::format("{}'{}', version {}", out.empty() ? "" : "; ", model->spec().name, model->spec().version);
  return out;
}

void Models::finish() {
  for (const auto& model : models_) model->finish();
}

}  // namespace mlx::serve
