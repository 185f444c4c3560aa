// family = "mlp", over images or features, with the defaults hidden = [512, 512], and activation = "relu", norm =
// "none", dropout = 0 after each hidden layer.

#include "base/json.h"
#include "nn/families.h"

namespace mlx::nn {

void build_mlp(TomlReader& model, Network& network, Json& config) {
  const std::vector<std::int64_t> hidden = model.integers("hidden", 1, std::int64_t{1} << 24);
  config["hidden"] = hidden;
  DenseLayer dense;
  dense.norm = read_norm(model, config);
  dense.activation = read_activation(model, config);
  const double dropout = model.number("dropout", 0, 0.99, 0);
  config["dropout"] = dropout;
  if (network.is_image()) add_flatten(network);
  for (const std::int64_t units : hidden) {
    dense.units = units;
    at_key(model, "hidden", [&] { add_dense(network, dense); });
    add_dropout(network, static_cast<float>(dropout));
  }
}

}  // namespace mlx::nn
