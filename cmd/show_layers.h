// The layers of a model as `mlx show` prints them: a table with shapes, parameters and FLOPs, and what the model takes
// in memory. Only model.json is read, so that it works where the weights were not fetched.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "cmd/cli/cli.h"
#include "graph/session/summary.h"
#include "nn/model.h"
#include "registry/versions/artifacts.h"

namespace mlx::cmd {

struct ModelLayers {
  nn::Model model;          // without tensors
  graph::Summary summary;   // for one example
  std::int64_t frozen = 0;  // how many of the parameters its training left as they were
  std::int64_t length = 0;  // of the example, if the model takes sequences
  // Activations and workspaces; none where no kernel of this machine serves the model (`memory_problem` says which).
  std::optional<std::size_t> inference_bytes, training_bytes;
  std::int64_t training_batch = 0;  // 0 if the version was not trained, or its run is not here
  std::string memory_problem;
};

ModelLayers model_layers(registry::Repository& repository, const registry::Version& version);
void print_layers(Context& context, const ModelLayers& layers);
// Adds "layers" and "totals" to the document.
void add_layers(Json& json, const ModelLayers& layers);

}  // namespace mlx::cmd
