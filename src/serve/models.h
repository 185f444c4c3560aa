// The models of a server, by the names that requests call them by. Used on the server's one I/O thread; a model may be
// replaced from another one.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/access.h"
#include "serve/served_model.h"

namespace mlx::serve {

// Those that a request may ask.
class VisibleModels {
 public:
  explicit VisibleModels(std::vector<std::shared_ptr<ServedModel>> models) : models_(std::move(models)) {}

  const std::vector<std::shared_ptr<ServedModel>>& all() const { return models_; }
  // By NAME, NAME/versions/V, or what it was asked for by; null for no model of these.
  ServedModel* find(std::string_view name) const;
  std::string names() const;  // "'clf', version 1; 'price', version 3"

 private:
  std::vector<std::shared_ptr<ServedModel>> models_;  // held, so that none is finished meanwhile
};

class Models {
 public:
  // Gets every model ready before it returns. Throws kNo where one does not give its golden outputs.
  Models(const std::vector<ModelSpec>& specs, const ServerOptions& options);

  VisibleModels visible(const ApiKey* key) const;  // to this key; null: all
  void finish();                                   // answers all that waits; nothing is asked after this
  // From any thread: gets a model ready and puts it in the place of the one of its name. That one is returned; it may
  // be finished once nobody else holds it. Throws as the constructor; the one before stays in its place then.
  std::shared_ptr<ServedModel> replace(ModelSpec spec);

 private:
  std::shared_ptr<ServedModel>& place_of(const std::string& name);

  const ServerOptions& options_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ServedModel>> models_;
};

}  // namespace mlx::serve
