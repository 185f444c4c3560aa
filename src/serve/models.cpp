// See models.h.
#include "serve/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mlx::serve {

namespace {

// Ready to answer, and answering as it did where its golden outputs were kept, which are not needed any longer.
std::unique_ptr<ServedModel> checked_model(ModelSpec spec, const ServerOptions& options) {
  for (const auto& [name, golden] : std::exchange(spec.golden, {})) infer::check_golden(*spec.model, golden, name);
  return serve_model(spec, options);
}

}  // namespace

Models::Models(const std::vector<ModelSpec>& specs, const ServerOptions& options) : options_(options) {
  for (const ModelSpec& spec : specs) models_.push_back(checked_model(spec, options));
}

VisibleModels Models::visible(const ApiKey* key) const {
  const std::lock_guard lock(mutex_);
  if (key == nullptr) return VisibleModels(models_);
  std::vector<std::shared_ptr<ServedModel>> out;
  for (const auto& model : models_)
    if (key->may_ask(model->spec().name)) out.push_back(model);
  return VisibleModels(std::move(out));
}

std::shared_ptr<ServedModel>& Models::place_of(const std::string& name) {
  const auto found = std::ranges::find_if(models_, [&](const auto& model) { return model->spec().name == name; });
  CHECK(found != models_.end());
  return *found;
}

std::shared_ptr<ServedModel> Models::replace(ModelSpec spec) {
  const std::string name = spec.name;
  {
    const std::lock_guard lock(mutex_);
    spec.metrics = place_of(name)->metrics();
  }
  const std::shared_ptr<ModelMetrics> metrics = spec.metrics;
  std::shared_ptr<ServedModel> made;
  try {
    made = checked_model(std::move(spec), options_);
  } catch (const Error&) {
    metrics->refused();
    throw;
  }
  metrics->replaced();
  const std::lock_guard lock(mutex_);
  place_of(name).swap(made);
  return made;
}

ServedModel* VisibleModels::find(std::string_view name) const {
  for (const auto& model : models_) {
    const ModelSpec& spec = model->spec();
    if (name == spec.name || name == spec.name + "/versions/" + spec.version) return model.get();
  }
  for (const auto& model : models_)
    if (name == model->spec().reference) return model.get();
  return nullptr;
}

std::string VisibleModels::names() const {
  std::string out;
  for (const auto& model : models_)
    out += fmt::format("{}'{}', version {}", out.empty() ? "" : "; ", model->spec().name, model->spec().version);
  return out;
}

void Models::finish() {
  const std::lock_guard lock(mutex_);
  for (const auto& model : models_) model->finish();
}

}  // namespace mlx::serve
