// The models of a server, by the names that requests call them by. Used on the server's one I/O thread.
#pragma once

#include <memory>
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
  explicit VisibleModels(std::vector<ServedModel*> models) : models_(std::move(models)) {}

  const std::vector<ServedModel*>& all() const { return models_; }
  // By NAME, NAME/versions/V, or what it was asked for by; null for no model of these.
  ServedModel* find(std::string_view name) const;
  std::string names() const;  // "'clf', version 1; 'price', version 3"

 private:
  std::vector<ServedModel*> models_;
};

class Models {
 public:
  // Gets every model ready before it returns.
  Models(const std::vector<ModelSpec>& specs, const ServerOptions& options);

  VisibleModels visible(const ApiKey* key) const;  // to this key; null: all
  void finish();                                   // answers all that waits; nothing is asked after this

 private:
  std::vector<std::unique_ptr<ServedModel>> models_;
};

}  // namespace mlx::serve
